export const inbox = {
  title: 'Inbox',
};
