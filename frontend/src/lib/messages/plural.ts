/** The wording for one, or for any other number. count: as a number, or as it is shown. */
export const plural = (count: number | string, one: string, many: string) =>
  count === 1 || count === '1' ? one : many;
