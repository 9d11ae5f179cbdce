/* The keys that send a text of several lines, as this machine's keyboard names them. */

import { t } from '../messages';

const isMac = /^(Mac|iPhone|iPad)/.test(navigator.platform);

export const sendKeys = (): string[] => [isMac ? '⌘' : t.ui.control, t.ui.enter];

/** For `aria-keyshortcuts`. */
export const SEND_SHORTCUT = isMac ? 'Meta+Enter' : 'Control+Enter';
