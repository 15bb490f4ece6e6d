import { outdated } from './refusal.ts'

/** What a client asks of the version before anything is done: the header as it came, or null. */
export interface Precondition {
  ifMatch: string | null
}

/** The version as `ETag` and `meta.version` say it (RFC 7644, 3.14). */
export const tagOf = ({ version }: { version: number }): string => `W/"${version}"`

/** Whether the header names this version. */
export const isNamed = (header: string, versioned: { version: number }): boolean =>
  header.trim() === '*' || header.split(',').some(tag => weak(tag.trim()) === tagOf(versioned))

// A strong tag that says the same is meant the same: every tag of ours is weak.
const weak = (tag: string) => (tag.startsWith('W/') ? tag : `W/${tag}`)

/** Throws 412 where the client has another version in mind. */
export function mustBeCurrent({ ifMatch }: Precondition, versioned: { version: number }): void {
  if (ifMatch !== null && !isNamed(ifMatch, versioned)) throw outdated()
}
