/* Lint rules for the page: the typed recommendations of typescript-eslint, and those for Svelte. */

import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';

const unsafe = ['argument', 'assignment', 'call', 'member-access', 'return'];

export default ts.config(
  { ignores: ['src/lib/api.gen.ts', 'eslint.config.js', 'packages/*/dist'] },
  js.configs.recommended,
  ...ts.configs.recommendedTypeChecked,
  ...svelte.configs.recommended,
  {
    languageOptions: {
      globals: { ...globals.browser },
      parserOptions: { project: './tsconfig.json', extraFileExtensions: ['.svelte'] },
    },
    rules: {
      // An implementation may be synchronous where its interface returns a promise.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      // Sets, maps and URLs serve as plain values here. State that must react is declared with $state.
      'svelte/prefer-svelte-reactivity': 'off',
    },
  },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser } },
  },
  {
    // ESLint sees an imported component as `any`. svelte-check knows its type and checks these.
    files: ['**/*.svelte'],
    rules: Object.fromEntries(unsafe.map((name) => [`@typescript-eslint/no-unsafe-${name}`, 'off'])),
  },
  {
    // Matchers of vitest are `any`, and a fake may replace a method of its own.
    files: ['tests/**'],
    rules: {
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/unbound-method': 'off',
    },
  },
);
