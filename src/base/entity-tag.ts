import { GatewayError, invalid } from './errors.ts'

/** The version that a client requires for a change: the header as received, or null. */
export interface Precondition {
  ifMatch: string | null
}

/** What has a version. */
interface Versioned {
  version: number | string
}

/** Renders a version for `ETag`, and for `meta.version` of SCIM (RFC 7644, 3.14). */
export const renderTag = ({ version }: Versioned): string => `W/"${version}"`

/** Whether the header names this version. */
export const matchesTag = (header: string, versioned: Versioned): boolean =>
  header.trim() === '*' ||
  (header.match(ONE_TAG) ?? []).some(tag => toWeakTag(tag) === renderTag(versioned))

// A strong tag with the same value counts as equal, since the gateway's own tags are all weak.
const toWeakTag = (tag: string) => (tag.startsWith('W/') ? tag : `W/${tag}`)

/** Throws 412 when the client requires another version, as HTTP wants (RFC 9110, 13.1.1). */
export function assertCurrent({ ifMatch }: Precondition, versioned: Versioned): void {
  if (ifMatch !== null && !matchesTag(ifMatch, versioned))
    throw new GatewayError('precondition_failed', 'The resource has been changed since')
}

const TAG = String.raw`(?:W/)?"[\x21\x23-\x7e\x80-\xff]{0,200}"`
const ONE_TAG = new RegExp(TAG, 'g')
// A list may have empty items, and tabs for spaces (RFC 9110, 5.6.1).
const TAGS = new RegExp(
  String.raw`^(?:[ \t]*\*[ \t]*|[ \t,]*${TAG}(?:[ \t]*,[ \t,]*${TAG}){0,31}[ \t]*(?:,[ \t,]*)?)$`,
)

/** Reads the version that a change requires. Throws 400 for what names none. */
export function readPrecondition({ headers }: Request): Precondition {
  const ifMatch = headers.get('if-match')
  if (ifMatch !== null && !TAGS.test(ifMatch))
    throw invalid('If-Match: expected a tag as in ETag, such as W/"1", or *', 'If-Match')
  return { ifMatch }
}
