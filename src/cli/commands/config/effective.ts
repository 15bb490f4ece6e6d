import { openPlaces } from '../../config-file/places.ts'
import type { ConfigFile } from '../../config-file.ts'

/** One setting that is in effect. */
interface EffectiveSetting {
  /** Its names with dots between. */
  setting: string
  value: unknown
  /** `default`, the place in the file, or the variables of the environment. */
  source: string
}

const MASK = '••••••'

/**
 * Lists every setting that is in effect, and where each comes from. Secrets are masked: credentials
 * whatever their text, header values, what opens the place of an address, and all that the file takes
 * from a variable or another file.
 */
export function listEffectiveSettings(configFile: ConfigFile): EffectiveSetting[] {
  const { config, file, text, environment } = configFile
  const written: unknown = text === '' ? {} : (Bun.YAML.parse(text) ?? {})
  const places = openPlaces(text)
  const found = new Map(environment.providers.map(({ slug, variables }) => [slug, variables]))
  const findSource = (names: string[]): string => {
    const variables = names[0] === 'providers' ? found.get(names[1] ?? '') : undefined
    if (variables) return `environment: ${variables.join(', ')}`
    const value = findWritten(written, names)
    const named = typeof value === 'string' ? [...value.matchAll(/\$\{[^}]+\}/g)].join(' ') : ''
    return value === undefined ? 'default' : `${file}${places(names)} ${named}`.trimEnd()
  }
  // A provider has what the file says, also where its secrets are missing here.
  const own = (written as { providers?: object }).providers
  const all = { ...config, providers: { ...config.providers, ...own } }
  return listLeaves(all).map(({ names, value }) => ({
    setting: names.join('.'),
    value: isSecret(names, findWritten(written, names)) ? MASK : maskAddress(value),
    source: findSource(names),
  }))
}

interface Leaf {
  names: string[]
  value: unknown
}

function listLeaves(value: unknown, names: string[] = []): Leaf[] {
  const members = listMembers(value)
  return members.length === 0
    ? [{ names, value }]
    : members.flatMap(([name, member]) => listLeaves(member, [...names, name]))
}

// A list of texts is one value; a list of sections is not.
const listMembers = (value: unknown): [string, unknown][] =>
  typeof value === 'object' &&
  value !== null &&
  !(Array.isArray(value) && value.every(item => typeof item !== 'object'))
    ? Object.entries(value)
    : []

/** What a credential is called, wherever it stands. */
const SECRET_NAMES =
  /^(api_key|authorization|access_key_id|secret_access_key|session_token|service_account|headers|env|.*(password|secret|token))$/

const isSecret = (names: string[], written: unknown): boolean =>
  names.some(name => SECRET_NAMES.test(name)) ||
  (typeof written === 'string' && written.includes('${'))

/** Who opens a database is in its address, before the host or among the parameters. */
const USER = /(?<=^[a-z+]+:\/\/)[^/?#]+(?=@)/i
const PARAMETER = /(?<=[?&][^=&]*(password|secret|token|key)[^=&]*=)[^&]+/gi

const maskAddress = (value: unknown): unknown =>
  typeof value === 'string' && value.includes('://')
    ? value.replace(USER, MASK).replace(PARAMETER, MASK)
    : value

function findWritten(written: unknown, names: string[]): unknown {
  let at = written
  for (const name of names) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined
    at = (at as Record<string, unknown>)[name]
  }
  return at
}
