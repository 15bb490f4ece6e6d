import { Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { isObject } from '../../base/json.ts'
import { describeIssue, findSchemaIssue } from '../../base/schema.ts'
import { closed } from '../../base/schema-builders.ts'
import { VERSION } from '../../base/version.ts'
import { parseUntrustedUrl, refusePrivateHost } from '../../network/untrusted-url.ts'
import type { DeliveryRequest, DestinationKind, RenderWorld } from './kind.ts'
import type { DestinationConfig } from './opened.ts'
import type { DestinationWorld } from './world.ts'

/** The longest config as JSON, in characters. */
const LONGEST_CONFIG = 65_536
const MAX_HEADERS = 50

/**
 * Fills in the defaults of a config and checks it: by the schema of its kind, its headers, and
 * where its requests would go. Throws 400 naming the field: `config.apiKey`.
 */
export function checkConfig(
  world: DestinationWorld,
  kind: DestinationKind,
  config: DestinationConfig,
): DestinationConfig {
  const filled = { ...listDefaults(kind), ...config }
  const schema = Type.Object({ config: Type.Object(kind.config.properties, closed) })
  const issue = findSchemaIssue(schema, { config: filled })
  if (issue) throw invalid(describeIssue(issue, issue.path), issue.path)
  if (JSON.stringify(filled).length > LONGEST_CONFIG)
    throw invalid(`config: expected at most ${LONGEST_CONFIG} characters of JSON`, 'config')
  if (isObject(filled.headers)) checkHeaders(filled.headers)
  checkUrls(world, kind, filled)
  return filled
}

const listDefaults = ({ config }: DestinationKind): DestinationConfig =>
  Object.fromEntries(
    Object.entries(config.properties).flatMap(([name, property]) =>
      property.default === undefined ? [] : [[name, property.default]],
    ),
  )

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}$/
// A line break would end the header and begin another one.
const HEADER_VALUE = /^[\t\x20-\x7e]{0,8192}$/
/** Headers that decide how the request itself is read. */
const RESERVED = [
  ...['connection', 'content-encoding', 'content-length', 'expect', 'host', 'keep-alive', 'te'],
  ...['trailer', 'transfer-encoding', 'upgrade'],
]

// A header's name is the caller's own word, and no message repeats it.
function checkHeaders(headers: Record<string, unknown>): void {
  const entries = Object.entries(headers)
  if (entries.length > MAX_HEADERS) throw headerRefusal(`at most ${MAX_HEADERS} headers`)
  for (const [name, value] of entries) {
    if (!HEADER_NAME.test(name)) throw headerRefusal('names that a header may have')
    if (typeof value !== 'string' || !HEADER_VALUE.test(value))
      throw headerRefusal('values of visible ASCII characters in one line')
    if (RESERVED.includes(name.toLowerCase()) || /^proxy-/i.test(name))
      throw headerRefusal('no header that belongs to the connection')
  }
}

const headerRefusal = (expected: string) =>
  invalid(`config.headers: expected ${expected}`, 'config.headers')

/** The fields that may say where requests go. */
const ADDRESS_FIELDS = ['url', 'endpoint', 'baseUrl', 'otlpEndpoint', 'host', 'account', 'dsn']

// What is sent is checked again for each request: a name may come to mean another host.
function checkUrls(world: DestinationWorld, kind: DestinationKind, config: DestinationConfig) {
  for (const [name, value] of Object.entries(config)) {
    if (typeof value !== 'string' || kind.secrets.includes(name)) continue
    if (value.includes('://')) checkUrl(world, value, `config.${name}`)
  }
  const named = ADDRESS_FIELDS.find(name => typeof config[name] === 'string')
  const field = named === undefined ? 'config' : `config.${named}`
  checkUrl(world, renderTestRequest(world, kind, config, field).url, field)
}

function checkUrl(world: DestinationWorld, text: string, field: string): void {
  const url = parseUntrustedUrl(world, text, field)
  if (url.hash !== '') throw invalid(`${field}: expected a URL without a fragment`, field)
  refusePrivateHost(world, text, field)
}

/** Renders a kind's test request. Throws 400 naming `field` for a config that has no such request. */
export function renderTestRequest(
  world: DestinationWorld,
  kind: DestinationKind,
  config: DestinationConfig,
  field = 'config',
): DeliveryRequest {
  try {
    return kind.renderTest(createRenderWorld(world), config as never)
  } catch (thrown) {
    const cause = thrown instanceof TypeError ? 'an http or https URL' : 'a config that can be used'
    throw invalid(`${field}: expected ${cause}`, field)
  }
}

/** Creates what rendering a request needs. */
export const createRenderWorld = ({ config, clock, ids }: DestinationWorld): RenderWorld => ({
  now: clock.now().getTime(),
  serviceName: config.service_name,
  version: VERSION,
  createId: () => ids.uuid(),
})
