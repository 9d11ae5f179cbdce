/* Builds the package as it is published: dist/index.js. Vite is that of the folder frontend, from which it runs. */

export default {
  root: '../packages/online-federated/js',
  build: {
    target: 'es2022',
    lib: { entry: { index: 'src/index.ts' }, formats: ['es'] },
  },
};
