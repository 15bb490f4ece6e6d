import { outdated } from './refusal.ts'

/** The version that a client requires for a change: the header as received, or null. */
export interface Precondition {
  ifMatch: string | null
}

/** Renders the version for `ETag` and `meta.version` (RFC 7644, 3.14). */
export const renderTag = ({ version }: { version: number }): string => `W/"${version}"`

/** Whether the header names this version. */
export const matchesTag = (header: string, versioned: { version: number }): boolean =>
  header.trim() === '*' ||
  header.split(',').some(tag => toWeakTag(tag.trim()) === renderTag(versioned))

// A strong tag with the same value counts as equal, since the gateway's own tags are all weak.
const toWeakTag = (tag: string) => (tag.startsWith('W/') ? tag : `W/${tag}`)

/** Throws 412 when the client requires another version. */
export function assertCurrent({ ifMatch }: Precondition, versioned: { version: number }): void {
  if (ifMatch !== null && !matchesTag(ifMatch, versioned)) throw outdated()
}
