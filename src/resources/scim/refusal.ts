import { GatewayError } from '../../base/errors.ts'

/** The reasons for an error in RFC 7644 (3.12, table 9). */
export type ScimType =
  | 'invalidFilter'
  | 'invalidPath'
  | 'invalidSyntax'
  | 'invalidValue'
  | 'mutability'
  | 'noTarget'
  | 'tooMany'
  | 'uniqueness'

/** The request cannot be executed. 400, with the reason for a program. */
export const refused = (scimType: Exclude<ScimType, 'uniqueness'>, message: string) =>
  new GatewayError('invalid_request', message, { metadata: { scimType } })

/** Another resource already has this value, which must be unique. 409. */
export const taken = (message: string) =>
  new GatewayError('conflict', message, { metadata: { scimType: 'uniqueness' } })
