import { Option } from 'commander'
import { GatewayError, invalid } from '../../base/errors.ts'
import { type Json, parseObject } from '../../base/json.ts'
import { DESTINATION_TYPES } from '../../observability/destinations/kind.ts'
import {
  demand,
  type Fields,
  type Flags,
  fill,
  fillAllNamed,
  fillDisabled,
  fillWorkspace,
  LIST,
  NUMBER,
  PAGE,
  YES_OR_NO,
} from '../fields.ts'
import { describeOthers } from '../lists.ts'
import { DESTINATIONS, KEYS } from '../names.ts'
import { defineNoun, defineVerbs, printDeleted, withInput } from '../noun.ts'
import { print, printFields, printNote } from '../output.ts'

/** Where the config of a destination is read from. Later ones win. */
interface SettingsFlags {
  settings?: string
  set?: string[]
  setEnv?: string[]
}

/** Declares the options that fill `config`: a file, single fields, and fields from variables. */
const createSettingsFields = (): Fields => ({
  options: [
    new Option('--settings <file>', 'a JSON file of its config; - for standard input'),
    new Option('--set <field=value...>', 'a field of its config; headers.NAME=value for a header'),
    new Option(
      '--set-env <field=variable...>',
      'the same from an environment variable: a secret does not belong on a command line',
    ),
  ],
  flags: { config: '--settings' },
  read: readSettings,
})

async function readSettings(flags: Flags): Promise<{ config?: Json }> {
  const { settings, set = [], setEnv = [] } = flags as SettingsFlags
  if (settings === undefined && set.length + setEnv.length === 0) return {}
  const config: Json = settings === undefined ? {} : await readJsonObject(settings, 'settings')
  for (const text of set) setField(config, ...splitPair(text, 'set'))
  for (const text of setEnv) {
    const [field, variable] = splitPair(text, 'set-env')
    setField(config, field, readVariable(variable))
  }
  return { config }
}

function splitPair(text: string, option: string): [string, string] {
  const at = text.indexOf('=')
  if (at < 1) throw invalid(`--${option}: expected a field, an equals sign and a value`)
  return [text.slice(0, at), text.slice(at + 1)]
}

function setField(config: Json, field: string, value: string): void {
  if (!field.startsWith('headers.')) config[field] = value
  else config.headers = { ...(config.headers as Json), [field.slice('headers.'.length)]: value }
}

function readVariable(name: string): string {
  const value = process.env[name]
  if (value === undefined)
    throw invalid('--set-env: expected the name of an environment variable that is set')
  return value.trim()
}

/** Reads a file that holds a JSON object; `-` is standard input. Throws 400 for anything else. */
async function readJsonObject(file: string, option: string): Promise<Json> {
  const source = file === '-' ? Bun.stdin : Bun.file(file)
  const text = await source.text().catch(() => {
    throw invalid(`--${option}: the file cannot be read`)
  })
  const object = parseObject(text)
  if (!object) throw invalid(`--${option}: expected a JSON object`)
  return object
}

const verb = defineVerbs(
  async () => ({
    ...(await import('../../observability/destinations.ts')),
    ...(await import('../../observability/destinations/operations.ts')).destinations.operations,
    ...(await import('../../observability/destinations/schema.ts')),
    ...(await import('../../observability/destinations/deliveries/store.ts')),
    ...(await import('../../observability/destinations/failures.ts')),
    ...(await import('../../observability/destinations/test-delivery.ts')),
  }),
  {
    args: { id: 'its id or name, or a beginning of one' },
    names: { id: DESTINATIONS },
    lists: { failures: 'failed deliveries' },
  },
)

const SETTINGS: Fields[] = [
  createSettingsFields(),
  fillAllNamed(
    'api_key_hashes',
    '--keys <keys>',
    'only calls of these API keys; none for all',
    KEYS,
  ),
  fill('regions', '--regions <names>', 'only calls in these: global, europe, us', LIST),
  fill('sampling_rate', '--sampling-rate <share>', 'the share of sessions, 0.0001 to 1', NUMBER),
  fill('privacy_mode', '--privacy <on>', 'whether contents are left out: yes or no', YES_OR_NO),
  fill(
    'broadcast_generation_cost',
    '--cost <on>',
    'whether the group about cost is told: yes or no',
    YES_OR_NO,
  ),
  fill(
    'broadcast_generation_identity',
    '--identity <on>',
    'whether the group about who called is told: yes or no',
    YES_OR_NO,
  ),
  fill(
    'broadcast_generation_request_context',
    '--request-context <on>',
    'whether the group about the request is told: yes or no',
    YES_OR_NO,
  ),
  fillRules(),
]
const NAME = fill('name', '--name <name>', 'its name')

function createTypeField(): Fields {
  const fields = fill('type', '--type <type>', 'what it is: see docs/destinations.md')
  for (const option of fields.options) option.choices(DESTINATION_TYPES)
  return fields
}

const NEW = [
  demand(NAME),
  demand(createTypeField()),
  ...SETTINGS,
  fillEnabled(),
  fillWorkspace('its workspace, by id or slug'),
]
const CHANGE = [NAME, ...SETTINGS, fillEnabled()]

/** `gateway destinations`: where calls are told, by the same functions and rules as over HTTP. */
export const createDestinationsCommand = () =>
  defineNoun('destinations', 'where a workspace’s calls are told', [
    verb('create', 'add a destination', NEW, core => core.create),
    verb(
      'list',
      'list the destinations of a workspace',
      [...PAGE, fillWorkspace('another workspace, by id or slug')],
      core => core.list,
    ).printAs(
      async ({ data }, { core, gateway, printList }) => {
        const health = await core.readHealth(gateway)
        const rows = data.map(({ id, name, type }) => {
          const found = health.get(id)
          const { state, waiting, failed, dropped } = found ?? { ...core.NO_COUNTS, state: 'on' }
          return [name, type, state, waiting, failed, dropped, found?.last_success_at ?? null, id]
        })
        printList(['NAME', 'TYPE', 'STATE', 'WAITING', 'FAILED', 'DROPPED', 'LAST', 'ID'], rows)
      },
      describeOthers(({ memory: { destinations } }) =>
        Array.from(destinations.values(), ({ destination }) => destination),
      ),
    ),
    verb('get <id>', 'show a destination and how it is doing', [], core => core.get).printAs(
      async ({ data }, { core, gateway, args: [id] }) =>
        printFields({ ...data, ...(await core.readHealth(gateway)).get(id) }),
    ),
    verb(
      'update <id>',
      'change a destination; its config is merged field by field',
      CHANGE,
      core => core.update,
    ),
    verb(
      'delete <id>',
      'delete a destination, with what waits for it',
      [],
      core => core.delete,
    ).printAs(printDeleted),
    verb(
      'test <id>',
      'send a destination a request that delivers nothing',
      [],
      core => core.testDestination,
    ).printAs(({ data }) => {
      if (!data.passed)
        throw new GatewayError('provider_unavailable', `The test failed: ${data.reason}`)
      print(`passed: it answered ${data.status}`)
      if (data.warning !== undefined) printNote(data.warning)
    }),
    verb(
      'pause <id>',
      'stop sending; calls are kept for it',
      [],
      core => core.pauseDestination,
    ).printAs(({ data }) => print(`${data.name} is paused`)),
    verb('resume <id>', 'send again what was kept', [], core => core.resumeDestination).printAs(
      ({ data }) => print(`${data.name} is told again`),
    ),
    verb('failures <id>', 'list what a destination, or telemetry.otlp, has refused', PAGE, core =>
      withInput(core.FailureQuery, core.listFailures),
    ).printAs({
      GENERATION: failure => failure.generation_id,
      STATUS: failure => failure.status,
      REASON: failure => failure.reason,
      AT: failure => failure.failed_at,
    }),
    verb(
      'replay <id>',
      'send again what a destination has refused',
      [],
      core => core.replayFailures,
    ).printAs(({ data }) => print(`Waiting again: ${data.replayed}`)),
    verb('drop <id>', 'drop what a destination has refused', [], core => core.dropFailures).printAs(
      ({ data }) => print(`Dropped: ${data.dropped}`),
    ),
  ])

function fillRules(): Fields {
  const fields = fill(
    'filter_rules',
    '--filters <file>',
    'a JSON file of filter rules; none for no rules',
  )
  return {
    ...fields,
    async read({ filters }) {
      if (filters === undefined || filters === 'none')
        return { filter_rules: filters === 'none' ? null : undefined }
      return { filter_rules: await readJsonObject(String(filters), 'filters') }
    },
  }
}

function fillEnabled(): Fields {
  const { options, read } = fillDisabled('stop telling it; what waits is dropped', 'tell it again')
  return {
    options,
    flags: { enabled: '--enable' },
    async read(flags, args) {
      const { disabled } = (await read?.(flags, args)) ?? {}
      return { enabled: disabled === undefined ? undefined : !disabled }
    },
  }
}
