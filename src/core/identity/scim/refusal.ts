import { conflict, GatewayError } from '../../errors.ts'

/** What a refusal of RFC 7644 (3.12, table 9) may be about. */
export type ScimType =
  | 'invalidFilter'
  | 'invalidPath'
  | 'invalidSyntax'
  | 'invalidValue'
  | 'mutability'
  | 'noTarget'
  | 'uniqueness'

/** What was asked cannot be done so. 400, with the reason for a program. */
export const refused = (scimType: Exclude<ScimType, 'uniqueness'>, message: string) =>
  new GatewayError('invalid_request', message, { metadata: { scimType } })

/** Another resource has this value already, and it may be there once. 409. */
export const taken = (message: string) =>
  new GatewayError('conflict', message, { metadata: { scimType: 'uniqueness' } })

/** The resource is not as the client thinks that it is (`If-Match`). 412. */
export const outdated = () =>
  new GatewayError('precondition_failed', 'The resource has been changed since')

/** What the store says of two changes at the same moment, as SCIM says it. */
export const isConflict = (thrown: unknown): thrown is GatewayError =>
  thrown instanceof GatewayError && thrown.type === conflict().type
