import type { Messages } from '..';

export const chat: Messages['chat'] = {
  title: 'Chat',
  conversations: {
    title: 'Gespräche',
    start: 'Neues Gespräch',
  },
};
