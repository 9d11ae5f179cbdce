import type { Messages } from '..';

export const reports: Messages['reports'] = {
  title: 'Berichte',
};
