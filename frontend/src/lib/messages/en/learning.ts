export const learning = {
  title: 'Learning',
};
