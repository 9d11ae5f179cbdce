/* Amounts of US dollars, in the language of the person. */

import { locale } from '../messages';

const CURRENCY = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' } as const;
const CENT = 0.1; // below it, two significant digits say more than cents
const LARGE = 1000;

/** 1234.5 -> "$1,235"; 0.42 -> "$0.42"; 0.00312 -> "$0.0031". */
export function dollars(amount: number): string {
  const digits =
    Math.abs(amount) >= LARGE
      ? { maximumFractionDigits: 0 }
      : amount === 0
        ? { maximumFractionDigits: 0 }
        : Math.abs(amount) < CENT
          ? { maximumSignificantDigits: 2 }
          : { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return new Intl.NumberFormat(locale, { ...CURRENCY, ...digits }).format(amount);
}
