import { maskCredential } from '../kernel/credential.ts'
import { isObject } from '../kernel/json.ts'
import type { DestinationKind } from './kind.ts'
import type { DestinationConfig } from './opened.ts'

/**
 * Masks a secret: its first and last four characters, as the public service does. Of a URL that
 * contains one, such as a DSN, only that is masked, so that it stays a URL.
 */
export const maskSecret = (secret: string): string =>
  CREDENTIAL_IN_URL.test(secret)
    ? secret.replace(CREDENTIAL_IN_URL, maskCredential)
    : maskCredential(secret)

const CREDENTIAL_IN_URL = /(?<=^https?:\/\/)[^@/]+(?=@)/

/** The headers whose values are none: those that say what a body is, and who sends it. */
const PLAIN_HEADERS = new Set(['accept', 'content-language', 'user-agent'])

/** Whether the value of a header is a secret: it is, unless it is known to be none. */
const isSecretHeader = (name: string): boolean => !PLAIN_HEADERS.has(name.toLowerCase())

/** Replaces each secret of a config: its secret fields, and headers that are not known. */
export function replaceSecrets(
  { secrets }: Pick<DestinationKind, 'secrets'>,
  config: DestinationConfig,
  replace: (secret: string) => string,
): DestinationConfig {
  const replaceField = ([name, value]: [string, unknown]): [string, unknown] => {
    if (name === 'headers' && isObject(value)) return [name, replaceHeaders(value, replace)]
    return [name, typeof value === 'string' && secrets.includes(name) ? replace(value) : value]
  }
  return Object.fromEntries(Object.entries(config).map(replaceField))
}

const replaceHeaders = (headers: Record<string, unknown>, replace: (secret: string) => string) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      typeof value === 'string' && isSecretHeader(name) ? replace(value) : value,
    ]),
  )

/**
 * Merges a change into a config, field by field. Null removes a field. A secret that equals its
 * mask stays as it is: it was read from an answer and sent back.
 */
export function mergeConfig(
  kind: Pick<DestinationKind, 'secrets'>,
  config: DestinationConfig,
  change: DestinationConfig,
): DestinationConfig {
  const merged = new Map(Object.entries(config))
  for (const [name, value] of Object.entries(change))
    if (value === null) merged.delete(name)
    else if (name === 'headers') merged.set(name, mergeHeaders(config.headers, value))
    else if (!(kind.secrets.includes(name) && isMaskOf(value, config[name])))
      merged.set(name, value)
  return Object.fromEntries(merged)
}

const isMaskOf = (value: unknown, secret: unknown): boolean =>
  typeof secret === 'string' && value === maskSecret(secret)

function mergeHeaders(before: unknown, after: unknown): unknown {
  if (!isObject(before) || !isObject(after)) return after
  return Object.fromEntries(
    Object.entries(after).map(([name, value]) => [
      name,
      Object.hasOwn(before, name) && isMaskOf(value, before[name]) ? before[name] : value,
    ]),
  )
}

/** Finds a secret that stays although the config changes, by its path; null if none does. */
export function findKeptSecret(
  kind: Pick<DestinationKind, 'secrets'>,
  config: DestinationConfig,
  change: DestinationConfig,
): string | null {
  const field = kind.secrets.find(
    name =>
      typeof config[name] === 'string' &&
      (change[name] === undefined || isMaskOf(change[name], config[name])),
  )
  if (field !== undefined) return `config.${field}`
  const headers = isObject(config.headers) ? Object.entries(config.headers) : []
  const isKept = ([name, value]: [string, unknown]) => {
    if (typeof value !== 'string' || !isSecretHeader(name)) return false
    const next = change.headers
    return next === undefined || (isObject(next) && isMaskOf(next[name], value))
  }
  return headers.some(isKept) ? 'config.headers' : null
}
