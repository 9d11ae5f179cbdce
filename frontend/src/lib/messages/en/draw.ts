export const draw = {
  title: 'Draw',
};
