import { hideCredentials } from '../base/credential.ts'
import type { GatewayError } from '../base/errors.ts'
import { toPrintable } from '../base/printable.ts'
import type { Provider } from '../resources/providers/provider.ts'

/**
 * Removes from the reason of a failure the credentials that the request carried, as some providers
 * repeat them, whatever else looks like a credential, and control characters, and cuts it after 500
 * characters. Our own go first: a form ends where its characters do, which may be in the middle of
 * a credential.
 */
export function cleanReason(error: GatewayError, provider: Provider | null): GatewayError {
  if (!error.reason?.message) return error
  const { message } = error.reason
  const anonymous = hideSecrets(message, provider ? listCredentials(provider) : [])
  const shown = cutMessage(toPrintable(hideCredentials(anonymous)))
  return shown === message ? error : error.with({ reason: { ...error.reason, message: shown } })
}

/** Replaces these secrets by `[secret]`, as `hideForms` does. */
export const hideSecrets = (text: string, secrets: string[]): string =>
  hideForms(text, listSecretForms(secrets))

/**
 * Lists the forms in which a server may repeat secrets, the longest first, as one may contain
 * another. Those of fewer than 8 characters are none.
 */
export const listSecretForms = (secrets: string[]): string[] =>
  secrets
    .filter(value => value.length >= SHORTEST)
    .flatMap(listForms)
    .sort((a, b) => b.length - a.length)

/** Replaces each of these forms by `[secret]`. */
export const hideForms = (text: string, forms: string[]): string =>
  forms.reduce((shown, form) => shown.replaceAll(form, '[secret]'), text)

const LONGEST_MESSAGE = 500

const cutMessage = (message: string): string =>
  message.length > LONGEST_MESSAGE
    ? `${message.slice(0, LONGEST_MESSAGE).toWellFormed()}…`
    : message

/** A shorter value is no secret, and may be a word of the message. */
const SHORTEST = 8

/** Lists the provider's credentials. */
function listCredentials({ api_key, aws, service_account, headers }: Provider): string[] {
  const secrets = [
    api_key,
    aws?.secret_access_key,
    aws?.session_token,
    service_account?.private_key,
  ].flatMap(secret => secret?.reveal() ?? [])
  return [...secrets, aws?.access_key_id ?? '', ...Object.values(headers)]
}

/** Lists the forms in which a server may repeat a value: on one line, in a URL, in JSON, encoded. */
function listForms(value: string): string[] {
  const base64 = Buffer.from(value).toString('base64')
  const forms = [
    value.replace(/\s+/g, ' ').trim(),
    encodeURIComponent(value.toWellFormed()),
    JSON.stringify(value).slice(1, -1),
    base64.replace(/=+$/, ''),
    base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''),
  ]
  return [...new Set(forms)]
}
