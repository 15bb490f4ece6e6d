import { FormatRegistry, type Static, type TObject, Type } from '@sinclair/typebox'

/** The most characters of a URL, and of a name in a config. */
const LONGEST_URL = 2_048
const LONGEST_NAME = 255
/** The most characters of a credential: tokens that are signed have thousands. */
const LONGEST_CREDENTIAL = 16_384
const MOST_HEADERS = 64
const LONGEST_HEADER = 8_192

/** A credential as it stands in a header: visible ASCII, and no line break at its end. */
export const Credential = Type.String({
  format: 'visible-ascii',
  minLength: 1,
  maxLength: LONGEST_CREDENTIAL,
})

/** A name at the vendor that stands in a header. */
export const HeaderName = Type.String({
  format: 'visible-ascii',
  minLength: 1,
  maxLength: LONGEST_NAME,
})

/** A name at the vendor that stands in a body: any text without control characters. */
export const BodyName = Type.String({
  pattern: '^[^\\u0000-\\u001f\\u007f]+$',
  title: 'without control characters',
  minLength: 1,
  maxLength: LONGEST_NAME,
})

/** A URL to which a kind appends its path: http or https, no user, no query. */
export const buildBaseUrl = (url?: string) =>
  Type.String({
    format: 'url',
    pattern: '^\\S+$',
    maxLength: LONGEST_URL,
    ...(url === undefined ? {} : { default: url }),
  })

FormatRegistry.Set('endpoint-url', isEndpointUrl)

/** A URL that is called as it is. It may have a query, where some receivers want their key. */
export const EndpointUrl = Type.String({ format: 'endpoint-url', maxLength: LONGEST_URL })

function isEndpointUrl(text: string): boolean {
  if (!/^\S+$/.test(text) || !URL.canParse(text)) return false
  const { protocol, username, password, hash } = new URL(text)
  return /^https?:$/.test(protocol) && username + password + hash === ''
}

/** Headers that belong to the connection or to the body. No config may set them. */
const RESERVED = [
  ...['connection', 'content-encoding', 'content-length', 'content-type', 'expect', 'host'],
  ...['keep-alive', 'proxy-authorization', 'te', 'trailer', 'transfer-encoding', 'upgrade'],
]

/**
 * Builds the schema of custom headers. It refuses those that the kind sends itself (`own`, in lower
 * case), so that none overrides the authentication or the type of the body unnoticed.
 */
export const buildHeadersSchema = (...own: string[]) =>
  Type.Optional(
    Type.Record(
      Type.String({ pattern: buildNamePattern([...RESERVED, ...own]) }),
      Type.String({ format: 'header-value', maxLength: LONGEST_HEADER }),
      { additionalProperties: false, maxProperties: MOST_HEADERS },
    ),
  )

FormatRegistry.Set('header-value', text => /^(?:[!-~](?:[\t -~]*[!-~])?)?$/.test(text))

// Schemas have no flag for "in any case", so each letter stands for both of its own.
function buildNamePattern(names: string[]): string {
  const anyCase = names.map(name =>
    name.replace(/[a-z]/g, letter => `[${letter}${letter.toUpperCase()}]`),
  )
  return `^(?!(?:${anyCase.join('|')})$)[!#$%&'*+.^_\`|~0-9A-Za-z-]{1,${LONGEST_NAME}}$`
}

/**
 * Lays a kind's own headers over the custom ones. Names are in lower case, so that none is sent
 * twice.
 */
export function buildHeaders(
  custom: Record<string, string> | undefined,
  own: Record<string, string>,
): Record<string, string> {
  const lower = Object.entries(custom ?? {}).map(([name, value]) => [name.toLowerCase(), value])
  return { ...Object.fromEntries(lower), ...own }
}

/** Encodes credentials of Basic authentication (RFC 7617), in UTF-8. */
export const buildBasic = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

/** Appends a path to a URL, unless the URL has it already. */
export function joinUrl(base: string, path: string): string {
  const trimmed = base.replace(/\/+$/, '')
  return trimmed.endsWith(path) ? trimmed : `${trimmed}${path}`
}

/** Returns a config with the defaults of its schema for the fields that it does not have. */
export function fillConfig<Config extends TObject>(
  schema: Config,
  config: Static<Config>,
): Static<Config> {
  const defaults = Object.entries(schema.properties).flatMap(([name, { default: value }]) =>
    value === undefined ? [] : [[name, value]],
  )
  return { ...Object.fromEntries(defaults), ...config }
}
