export const chat = {
  title: 'Chat',
  conversations: {
    title: 'Conversations',
    start: 'New conversation',
  },
};
