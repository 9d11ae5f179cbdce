export const repertoire = {
  title: 'Repertoire',
  dismiss: 'Dismiss',
  dismissHint: 'Spam, or not our topic. It comes back if five more people ask it.',
};
