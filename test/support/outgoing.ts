import type { BodyPiece } from '../../src/network/egress.ts'

/** Decodes the body of a request to a provider, which is in pieces if it is large. */
export const decodeOutgoing = (body: string | BodyPiece[]): string =>
  typeof body === 'string' ? body : Buffer.concat(body.map(requireBytes)).toString()

/** Returns a piece of a body that has no file. Throws for a piece that is still to be read. */
export function requireBytes(piece: BodyPiece): Uint8Array {
  if (piece instanceof Uint8Array) return piece
  throw new Error('A piece that is read while it is sent')
}
