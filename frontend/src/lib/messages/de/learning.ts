import type { Messages } from '..';

export const learning: Messages['learning'] = {
  title: 'Lernen',
};
