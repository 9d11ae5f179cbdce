import type { Messages } from '..';

export const session: Messages['session'] = {
  title: 'Anmelden',
};
