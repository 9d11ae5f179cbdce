/* Asks for a confirmation before something that affects everybody, or that cannot be undone. */

export interface ConfirmationRequest {
  /** A question, such as "Delete this conversation?" */
  title: string;
  /** What will happen, one paragraph each. */
  text: string | string[];
  /** The name of the button that does it, a verb. */
  action: string;
  /** Whether it deletes something. */
  danger?: boolean;
  /** A box that can be ticked. The dialog changes `checked`. */
  option?: { label: string; note: string; checked: boolean };
}

export class Confirmation {
  request = $state.raw<ConfirmationRequest | null>(null);

  private answer: (confirmed: boolean) => void = () => {};

  /** Resolves with whether the person agreed. A request that is open is refused by a second one. */
  ask = (request: ConfirmationRequest): Promise<boolean> => {
    this.answer(false);
    this.request = request;
    return new Promise((resolve) => (this.answer = resolve));
  };

  settle(confirmed: boolean) {
    this.request = null;
    this.answer(confirmed);
  }
}

/** The confirmations of the page. */
export const confirmation = new Confirmation();
export const confirmAction = confirmation.ask;
