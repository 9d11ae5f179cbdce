/* Lint rules for the page: the typed recommendations of typescript-eslint, and those for Svelte. */

import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';

const SERVICE_URL = String.raw`/(^|\u002F)(v1|healthz|readyz)(\u002F|$)/`; // a selector ends at a slash
const REQUESTS = ['fetch', 'EventSource', 'XMLHttpRequest'];
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
    // The widget, which is loaded alone, and a package that others install have requests of their own.
    files: ['src/**', 'widget/**'],
    ignores: ['src/lib/api/**', 'widget/service.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        ...[`Literal[value=${SERVICE_URL}]`, `TemplateElement[value.raw=${SERVICE_URL}]`].map((selector) => ({
          selector,
          message: 'Only src/lib/api (and widget/service.ts) knows a URL of the service.',
        })),
      ],
      'no-restricted-globals': ['error', ...REQUESTS.map((name) => ({ name, message: 'Use src/lib/http.ts.' }))],
    },
  },
  { files: ['src/lib/http.ts', 'src/worker.ts'], rules: { 'no-restricted-globals': 'off' } },
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
