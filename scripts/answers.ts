/**
 * `bun run answers CONTRACT.json`: takes the schemas of successful answers from the public API's
 * OpenAPI document, for the operations that this gateway has, into the server's description.
 */
import { resolve } from 'node:path'
import { openGateway } from '../src/app/gateway.ts'
import { createApp } from '../src/server/app.ts'
import { listDescribedRoutes } from '../src/server/openapi.ts'

const OUTFILE = resolve(import.meta.dir, '../src/server/openapi/answers.data.json')
const PREFIX = '#/components/schemas/'
/** Feeds are text here. */
const RSS = 'application/rss+xml'

interface Contract {
  paths: Record<string, Record<string, ContractOperation>>
  components: { schemas: Record<string, unknown> }
}

interface ContractOperation {
  operationId?: string
  responses?: Record<string, { content?: Record<string, { schema?: unknown }> }>
}

const [file = ''] = process.argv.slice(2)
const contract = (await Bun.file(file).json()) as Contract
const gateway = await openGateway()
const known = new Set(listDescribedRoutes(createApp(gateway)).map(({ operation }) => operation.id))
await gateway.close()

const operations = Object.fromEntries(
  Object.values(contract.paths)
    .flatMap(methods => Object.values(methods))
    .flatMap(operation => readAnswers(operation)),
)
const schemas = Object.fromEntries(
  [...collectNames(operations)]
    .toSorted()
    .map(name => [rename(name), simplify(contract.components.schemas[name])]),
)
await Bun.write(OUTFILE, `${JSON.stringify({ operations: simplify(operations), schemas })}\n`)

function readAnswers({ operationId = '', responses = {} }: ContractOperation) {
  if (!known.has(operationId)) return []
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1]
  const types = Object.entries(success?.content ?? {}).filter(([type]) => type !== RSS)
  if (types.length === 0) return []
  return [[operationId, Object.fromEntries(types.map(([type, { schema }]) => [type, schema]))]]
}

/** Collects the schemas that a value refers to, and those that they refer to. */
function collectNames(value: unknown, names = new Set<string>()): Set<string> {
  JSON.stringify(value, (key, member: unknown) => {
    if (key !== '$ref' || typeof member !== 'string') return member
    const name = member.slice(PREFIX.length)
    if (!names.has(name)) collectNames(contract.components.schemas[name], names.add(name))
    return member
  })
  return names
}

/** Drops extensions and what only the public service says of itself. */
function simplify(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(simplify)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, member]) => !name.startsWith('x-') && !isForeign(name, member))
      .filter(([name, member]) => !isOpenList(name, member))
      .map(([name, member]) => [
        name,
        name === '$ref' ? PREFIX + rename(String(member).slice(PREFIX.length)) : simplify(member),
      ]),
  )
}

// Providers that an operator adds have names of their own.
function isOpenList(name: string, member: unknown): boolean {
  return name === 'enum' && Array.isArray(member) && member.includes('OpenAI')
}

function isForeign(name: string, member: unknown): boolean {
  const isProse = ['description', 'example', 'examples'].includes(name)
  return isProse && /openrouter|clerk|\]\(/i.test(JSON.stringify(member))
}

function rename(name: string): string {
  return name.replace('OpenRouter', 'Gateway')
}
