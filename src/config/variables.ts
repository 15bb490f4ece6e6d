import type { FoundIssue } from './issues.ts'

/** Where `${…}` in a config takes its texts from. */
export interface VariableSources {
  /** `${NAME}` */
  env: Record<string, string | undefined>
  /** `${file:PATH}`: reads the text of a file. Throws when it cannot be read. */
  readSecretFile?: ((path: string) => string) | undefined
}

const VARIABLE = /\$\{(file:[^{}\n]+|[A-Za-z_][A-Za-z0-9_]*)\}/g
const FILE = 'file:'

/**
 * Replaces the variables in all texts of a parsed config, after parsing, so that no value can add
 * settings. `missing` has an issue for every variable without a value, which becomes empty.
 */
export function substituteVariables(
  value: unknown,
  sources: VariableSources,
): { replaced: unknown; missing: FoundIssue[] } {
  const missing: FoundIssue[] = []
  return { replaced: substituteBelow(value, { ...sources, missing }, []), missing }
}

interface Substitution extends VariableSources {
  /** What had no value so far. */
  missing: FoundIssue[]
}

function substituteBelow(value: unknown, to: Substitution, names: string[]): unknown {
  if (typeof value === 'string') return substituteText(value, to, names)
  // Of thousands of models, few have a variable.
  if (!mayHaveVariable(value)) return value
  if (Array.isArray(value))
    return value.map((item, i) => substituteBelow(item, to, [...names, String(i)]))
  if (!isMapping(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, substituteBelow(item, to, [...names, key])]),
  )
}

const mayHaveVariable = (value: unknown): boolean =>
  typeof value === 'string'
    ? value.includes('${')
    : typeof value === 'object' && value !== null && Object.values(value).some(mayHaveVariable)

const substituteText = (text: string, to: Substitution, names: string[]): string =>
  text.replace(VARIABLE, (_, name: string) => {
    const file = name.startsWith(FILE) ? name.slice(FILE.length) : undefined
    const found = file === undefined ? to.env[name] : readSecret(file, to)
    if (found !== undefined) return found
    const expected =
      file === undefined
        ? `the environment variable ${name}, found nothing`
        : `a file ${file} that can be read`
    to.missing.push({ names, message: `${names.join('.')}: expected ${expected}` })
    return ''
  })

function readSecret(file: string, { readSecretFile }: VariableSources): string | undefined {
  try {
    return readSecretFile?.(file).trim()
  } catch {
    // The reason may be the file's text. Its name is enough to mend it.
    return undefined
  }
}

/**
 * Returns parsed settings whose providers, engines, MCP servers, bucket, collector and mail need no secret:
 * one whose variables have no values here keeps its other settings, and sends no credential. For
 * commands that call none of them.
 */
export function removeMissingSecrets(settings: unknown, sources: VariableSources): unknown {
  if (!isMapping(settings)) return settings
  const { providers, web_search, web_fetch, mcp_servers, plugins, storage, telemetry, mail } =
    settings
  return {
    ...settings,
    ...replaceMembers('providers', providers, sources, removeSecrets),
    ...replaceMembers('mcp_servers', mcp_servers, sources, removeServerSecrets),
    ...replaceEngines('web_search', web_search, sources),
    ...replaceEngines('web_fetch', web_fetch, sources),
    ...(isMapping(plugins) && isMapping(plugins.mistral_ocr)
      ? { plugins: { ...plugins, mistral_ocr: keepValues(plugins.mistral_ocr, sources) } }
      : {}),
    ...replaceStorage(storage, sources),
    ...removeCollector(telemetry, sources),
    ...(isMapping(mail) ? { mail: { ...NO_MAIL, ...keepValues(mail, sources) } } : {}),
  }
}

/** Where a mail goes whose server is not known. */
const NO_MAIL = { host: 'missing.invalid', from: 'missing@missing.invalid' }

// Nothing is told without its credential.
function removeCollector(telemetry: unknown, sources: VariableSources): Mapping {
  if (!isMapping(telemetry) || hasValue(telemetry.otlp, sources)) return {}
  const { otlp: _, ...others } = telemetry
  return { telemetry: others }
}

const replaceEngines = (name: string, section: unknown, sources: VariableSources): Mapping =>
  isMapping(section)
    ? {
        [name]: {
          ...section,
          ...replaceMembers('engines', section.engines, sources, keepValues),
        },
      }
    : {}

// Members whose variables all have values stay as they are.
function replaceMembers(
  name: string,
  members: unknown,
  sources: VariableSources,
  replace: (member: Mapping, sources: VariableSources) => Mapping,
): Mapping {
  if (!isMapping(members)) return {}
  const replaced = Object.entries(members).map(([key, member]) => [
    key,
    isMapping(member) && !hasValue(member, sources) ? replace(member, sources) : member,
  ])
  return { [name]: Object.fromEntries(replaced) }
}

const keepValues = (member: Mapping, sources: VariableSources): Mapping =>
  Object.fromEntries(Object.entries(member).filter(([, value]) => hasValue(value, sources)))

// Its address may be in a variable, and one is required. Of a command with one, no part is known.
function removeServerSecrets(server: Mapping, sources: VariableSources): Mapping {
  const kept = keepValues(server, sources)
  if ('command' in kept) return kept
  const { env: _, cwd: __, ...others } = kept
  return { url: NOWHERE, ...others }
}

// What is asked of the bucket is refused there, and nothing needs Valkey. The database is asked by
// every command.
function replaceStorage(storage: unknown, sources: VariableSources): Mapping {
  if (!isMapping(storage)) return {}
  const { valkey, ...others } = storage
  const kept = valkey !== undefined && hasValue(valkey, sources) ? storage : others
  if (!isMapping(storage.s3) || hasValue(storage.s3, sources)) return { storage: kept }
  const missing = { bucket: 'missing', access_key_id: 'missing', secret_access_key: 'missing' }
  return { storage: { ...kept, s3: { ...missing, ...keepValues(storage.s3, sources) } } }
}

const CREDENTIALS = ['api_key', 'credentials', 'aws', 'service_account', 'auth']

// A signed provider's region may be among its credentials, and a custom one's address in a variable.
function removeSecrets(provider: Mapping, sources: VariableSources): Mapping {
  const kept = Object.entries(provider).filter(
    ([name, value]) => !CREDENTIALS.includes(name) && hasValue(value, sources),
  )
  const lost = ['base_url', 'region', 'project', 'aws', 'service_account', 'credentials'].some(
    name => name in provider && !kept.some(([other]) => other === name),
  )
  const address = lost && !kept.some(([name]) => name === 'base_url') ? { base_url: NOWHERE } : {}
  return { ...Object.fromEntries(kept), ...address, auth: 'none' }
}

/** An address that no name server knows (RFC 2606). */
const NOWHERE = 'http://missing.invalid'

const hasValue = (value: unknown, sources: VariableSources): boolean =>
  substituteVariables(value, sources).missing.length === 0

type Mapping = Record<string, unknown>

const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
