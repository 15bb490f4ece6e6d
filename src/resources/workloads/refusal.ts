import { GatewayError } from '../../base/errors.ts'

/** The codes of RFC 6749, 5.2, that exchanges are refused with. */
type OAuthCode =
  | 'invalid_request'
  | 'invalid_grant'
  | 'unsupported_grant_type'
  | 'invalid_scope'
  | 'server_error'
  | 'temporarily_unavailable'

/** Refuses an exchange for what was sent. 400. */
export const refuseExchange = (code: OAuthCode, message: string): GatewayError =>
  new GatewayError('invalid_request', message, { metadata: { oauth: code } })

/** Refuses an exchange for now. 503, with the seconds after which to try again. */
export const postponeExchange = (
  message: string,
  retryAfter: number,
  cause?: unknown,
): GatewayError => new GatewayError('unavailable', message, { retryAfter, cause })

// RFC 6749 has none for too many requests; this one says that the same request may succeed later.
const CODES: Record<number, OAuthCode> = {
  429: 'temporarily_unavailable',
  500: 'server_error',
  503: 'temporarily_unavailable',
}

/** Renders a failure as RFC 6749, 5.2, has it. */
export const renderOAuthError = ({ metadata, status, message }: GatewayError) => ({
  error: (metadata.oauth as OAuthCode | undefined) ?? CODES[status] ?? 'invalid_request',
  error_description: message,
})
