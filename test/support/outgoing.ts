/** Decodes the body of a request to a provider, which is in pieces if it is large. */
export const decodeOutgoing = (body: string | Uint8Array[]): string =>
  typeof body === 'string' ? body : Buffer.concat(body).toString()
