import type { Messages } from '..';

export const inbox: Messages['inbox'] = {
  title: 'Posteingang',
};
