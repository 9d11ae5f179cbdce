/** What ends an aggregation for this member: a message is invalid, too few members are left, or the service refuses one. */
export class AggregationFailed extends Error {
  override name = 'AggregationFailed';

  /** status: the HTTP status, where the service has refused something. */
  constructor(
    message: string,
    readonly status?: number,
  ) {
    super(message);
  }
}

/** Something else than the service has answered, such as a proxy with a page: the request can be repeated. */
export class UnexpectedAnswer extends Error {
  override name = 'UnexpectedAnswer';
}
