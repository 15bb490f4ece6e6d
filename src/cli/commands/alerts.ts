import { Option } from 'commander'
import { GatewayError, invalid } from '../../base/errors.ts'
import { ALERT_CAUSES } from '../../observability/alerts/schema.ts'
import {
  demand,
  type Fields,
  type Flags,
  fill,
  fillDisabled,
  fillNamed,
  fillWorkspace,
  PAGE,
  splitList,
} from '../fields.ts'
import { describeOthers } from '../lists.ts'
import { ALERTS, DESTINATIONS, KEYS } from '../names.ts'
import { defineNoun, defineVerbs, printDeleted } from '../noun.ts'
import { parseNumber } from '../options.ts'
import { print } from '../output.ts'

const verb = defineVerbs(
  async () => (await import('../../observability/alerts/operations.ts')).alerts.operations,
  { args: { id: 'its id or name, or a beginning of one' }, names: { id: ALERTS } },
)

/** Where an alert is sent: one of these. */
interface ReceiverFlags {
  webhook?: string
  secretEnv?: string
  slackEnv?: string
}

/** Declares the options that fill `to`. */
const createReceiverFields = (): Fields => ({
  options: [
    new Option('--webhook <url>', 'told by a signed request').conflicts('slackEnv'),
    new Option('--secret-env <variable>', 'the environment variable with what signs requests'),
    new Option('--slack-env <variable>', 'the one with the URL of an incoming webhook of Slack'),
  ],
  flags: { to: '--webhook' },
  read: readReceiver,
})

function readReceiver(flags: Flags) {
  const { webhook, secretEnv, slackEnv } = flags as ReceiverFlags
  if (slackEnv !== undefined)
    return { to: { type: 'slack', url: readVariable('slack-env', slackEnv) } }
  if (webhook === undefined && secretEnv === undefined) return {}
  if (webhook === undefined || secretEnv === undefined)
    throw invalid('--webhook: expected together with --secret-env')
  return { to: { type: 'webhook', url: webhook, secret: readVariable('secret-env', secretEnv) } }
}

function readVariable(option: string, name: string): string {
  const value = process.env[name]
  if (value === undefined)
    throw invalid(`--${option}: expected the name of an environment variable that is set`)
  return value.trim()
}

const NAME = fill('name', '--name <name>', 'its name')
const SETTINGS: Fields[] = [
  fill('thresholds', '--thresholds <numbers>', 'at which values, with commas between', {
    parse: text => (splitList(text) ?? []).map(parseNumber),
  }),
  fill(
    'window',
    '--window <window>',
    'how often the same is told: once an hour, or a day (hourly, daily)',
  ),
  fillNamed('key_hash', '--key <key>', 'only about this API key', KEYS),
  fill('provider', '--provider <slug>', 'only about this provider'),
  fillNamed('destination_id', '--destination <id>', 'only about this destination', DESTINATIONS),
  createReceiverFields(),
  fillDisabled('switch it off; what is not told yet is given up', 'switch it on'),
]

function createCauseField(): Fields {
  const fields = fill('cause', '--cause <cause>', 'what it is about: see docs/alerts.md')
  for (const option of fields.options) option.choices(ALERT_CAUSES)
  return fields
}

/** `gateway alerts`: what a workspace is told of, by the same functions and rules as over HTTP. */
export const createAlertsCommand = () =>
  defineNoun('alerts', 'who is told of limits, errors and what ends', [
    verb(
      'create',
      'add an alert',
      [
        demand(NAME),
        demand(createCauseField()),
        ...SETTINGS,
        fillWorkspace('its workspace, by id or slug'),
      ],
      core => core.create,
    ),
    verb(
      'list',
      'list the alerts of a workspace',
      [...PAGE, fillWorkspace('another workspace, by id or slug')],
      core => core.list,
    ).printAs(
      {
        NAME: alert => alert.name,
        CAUSE: alert => alert.cause,
        THRESHOLDS: alert => alert.thresholds.join(', '),
        TO: alert => alert.to?.type ?? null,
        STATE: alert => (alert.disabled ? 'off' : 'on'),
        ID: alert => alert.id,
      },
      describeOthers(({ memory: { alerts } }) => [...alerts.values()]),
    ),
    verb('get <id>', 'show an alert', [], core => core.get),
    verb('update <id>', 'change an alert', [NAME, ...SETTINGS], core => core.update),
    verb('delete <id>', 'delete an alert', [], core => core.delete).printAs(printDeleted),
    verb('test <id>', 'send its receiver a sample', [], core => core.test).printAs(({ data }) => {
      if (!data.passed)
        throw new GatewayError('provider_unavailable', `The test failed: ${data.reason}`)
      print(`passed: it answered ${data.status}`)
    }),
  ])
