import type { Messages } from '..';

export const draw: Messages['draw'] = {
  title: 'Zeichnen',
};
