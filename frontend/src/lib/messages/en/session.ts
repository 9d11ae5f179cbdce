export const session = {
  title: 'Sign in',
};
