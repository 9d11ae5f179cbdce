export const repertoire = {
  title: 'Repertoire',
};
