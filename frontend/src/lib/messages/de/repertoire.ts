import type { Messages } from '..';

export const repertoire: Messages['repertoire'] = {
  title: 'Repertoire',
};
