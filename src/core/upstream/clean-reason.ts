import type { Provider } from '../catalog/providers.ts'
import type { GatewayError } from '../errors.ts'

/**
 * Removes the credentials that a request carried from the reason of its failure, as some providers
 * repeat them, and cuts it after 500 characters. A credential of no known form is found by its
 * value.
 */
export function cleanReason(error: GatewayError, provider: Provider | null): GatewayError {
  const message = error.reason?.message
  if (!message || !provider || !error.reason) return error
  const shown = cutMessage(
    listCredentials(provider).reduce(
      (text, credential) => text.replaceAll(credential, '[secret]'),
      message,
    ),
  )
  return shown === message ? error : error.with({ reason: { ...error.reason, message: shown } })
}

const LONGEST_MESSAGE = 500

const cutMessage = (message: string): string =>
  message.length > LONGEST_MESSAGE
    ? `${message.slice(0, LONGEST_MESSAGE).toWellFormed()}…`
    : message

/** A shorter value is no secret, and may be a word of the message. */
const SHORTEST = 8

function listCredentials({ api_key, aws, service_account, headers }: Provider): string[] {
  const secrets = [
    api_key,
    aws?.secret_access_key,
    aws?.session_token,
    service_account?.private_key,
  ].flatMap(secret => secret?.reveal() ?? [])
  return [...secrets, aws?.access_key_id ?? '', ...Object.values(headers)].filter(
    value => value.length >= SHORTEST,
  )
}
