/** What is refused: a file, an option or an example. The learner is unchanged. */
export class LearnerError extends Error {
  override name = 'LearnerError';
}
