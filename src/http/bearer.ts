/**
 * The token of a header `Authorization: Bearer <token>` (RFC 6750); undefined for any other text. A header may be as long as Node lets
 * it be: it is cut first, so that a token of more than `most` characters keeps more than that many, and not all.
 */
export const bearerOf = (authorization: string | undefined, most: number): string | undefined =>
  /^Bearer +([^ ]+) *$/i.exec((authorization ?? '').slice(0, most + 16))?.[1];
