import { Option } from 'commander'
import type { Gateway } from '../../app/gateway.ts'
import { invalid } from '../../base/errors.ts'
import {
  COMING_TIME,
  demand,
  type Fields,
  type Flags,
  fill,
  fillDisabled,
  fillNamed,
  fillWorkspace,
  NUMBER_OR_NULL,
  OR_NULL,
  offer,
  PAGE,
} from '../fields.ts'
import { describeOthers } from '../lists.ts'
import { KEYS, MEMBERS } from '../names.ts'
import { defineNoun, defineVerbs, printDeleted } from '../noun.ts'
import { findWorkspaceId, parseDuration } from '../options.ts'
import { formatDollars, print, printFields, printNote } from '../output.ts'

const verb = defineVerbs(
  async () => (await import('../../resources/keys/operations.ts')).keys.operations,
  {
    args: { hash: 'its hash, name or label, or a beginning of one' },
    names: { hash: KEYS },
    needs: { config: false },
  },
)

const NAME = fill('name', '--name <name>', 'what it is for')
const LIMITS = [
  fill('limit', '--limit <usd>', 'spending limit in USD, or none', NUMBER_OR_NULL),
  fill('limit_reset', '--limit-reset <period>', 'daily, weekly, monthly, or none', OR_NULL),
  fill('include_byok_in_limit', '--byok-in-limit', 'count spending through own provider keys'),
]
const NEW = [
  ...LIMITS,
  demand(NAME),
  offer('--management', 'a management key, which cannot call models'),
  fill(
    'expires_at',
    '--expires-at <time>',
    'a day or time in UTC, or so long from now: 7d',
    COMING_TIME,
  ),
  fillWorkspace('its workspace, by id or slug'),
  fillNamed('creator_user_id', '--creator <member>', 'whose key it is, by id or e-mail', MEMBERS),
  createExternalFields(),
]
const CHANGE = [
  ...LIMITS,
  NAME,
  fillDisabled('disable it', 'enable it again'),
  offer('--no-byok-in-limit', 'do not count spending through own provider keys'),
]
const OVERLAP: Fields = {
  options: [
    new Option('--overlap <time>', 'how long the secret so far stays valid: 90s, 30m, 24h, 7d or 0')
      .argParser(parseDuration)
      .default(24 * 60 * 60, '24h'),
  ],
  flags: { overlap_seconds: '--overlap' },
  read: ({ overlap }) => ({ overlap_seconds: overlap }),
}
const LIST_FIELDS = [
  ...PAGE,
  {
    ...offer('--disabled', 'also the disabled ones, as with --all'),
    read: ({ all, disabled }: Flags): Record<string, unknown> =>
      all || disabled ? { include_disabled: 'true' } : {},
  },
  fillWorkspace('another workspace, by id or slug'),
]

/** `gateway keys`: API keys, by the same functions and rules as over HTTP. */
export const createKeysCommand = () =>
  defineNoun('keys', 'API keys', [
    verb(
      'create',
      'create a key and print it, once',
      NEW,
      (core, { management }: { management?: boolean }) =>
        management ? core.createManagement : core.create,
    ).printAs(({ key, data }) => {
      print(key)
      printNote(`This key is shown once. Its hash is ${data.hash}`)
    }),
    verb('list', 'list the keys of a workspace', LIST_FIELDS, core => core.list).printAs(
      {
        NAME: key => key.name,
        KIND: (key, { gateway }) => getKind(gateway, key.hash),
        LABEL: key => key.label,
        USED: key => formatDollars(key.usage),
        LIMIT: key => formatDollars(key.limit),
        STATE: key => (key.disabled ? 'disabled' : 'active'),
        HASH: key => key.hash,
      },
      describeHidden,
    ),
    verb('get <hash>', 'show a key', [], core => core.get).printAs(({ data }, { gateway }) => {
      const { hash, name, ...fields } = data
      const { previous_secret_until } = gateway.memory.keys.get(hash) ?? {}
      const rotation = previous_secret_until ? { previous_secret_until } : {}
      printFields({ hash, name, kind: getKind(gateway, hash), ...fields, ...rotation })
    }),
    verb('update <hash>', 'change a key', CHANGE, core => core.update),
    verb(
      'rotate <hash>',
      'give a key a new secret and print it, once',
      [OVERLAP],
      core => core.rotate,
    ).printAs(({ key, previous_valid_until }) => {
      print(key)
      printNote('This key is shown once. Name, limits and spending stay as they are')
      printNote(
        previous_valid_until === null
          ? 'The secret so far is no longer valid'
          : `The secret so far is valid until ${previous_valid_until}`,
      )
    }),
    verb('delete <hash>', 'delete a key', [], core => core.delete).printAs(printDeleted),
  ])

/** Declares whom a key stands for at a partner. That partner's own key is read like every secret. */
function createExternalFields(): Fields {
  return {
    options: [
      new Option('--external <user>', 'the user of a partner whom it stands for'),
      new Option('--external-key', 'also read that user’s own key, to be recognized by'),
    ],
    flags: { external: '--external' },
    read: async ({ external: user, externalKey }) => {
      if (externalKey && user === undefined)
        throw invalid('--external-key: expected --external beside it')
      if (user === undefined) return {}
      return { external: { user, ...(externalKey ? { api_key: await readPartnerKey() } : {}) } }
    },
  }
}

async function readPartnerKey(): Promise<string> {
  const { readSecret } = await import('../prompt.ts')
  return readSecret('Key of the partner’s user')
}

const getKind = ({ memory: { keys } }: Gateway, hash: string): string => keys.get(hash)?.kind ?? '-'

interface Listed {
  gateway: Gateway
  flags: Flags
}

const describeOtherKeys = describeOthers(({ memory: { keys } }) => keys.values().toArray())

/** Says which keys a list leaves out: later ones, disabled ones, those of other workspaces. */
async function describeHidden(
  { data }: { data: unknown[] },
  { gateway, flags }: Listed,
): Promise<string[]> {
  const { memory } = gateway
  const workspace = flags.workspace === undefined ? undefined : String(flags.workspace)
  const own = (await findWorkspaceId(gateway, workspace)) ?? memory.owner.workspace_id
  const isIncluded = flags.all || flags.disabled
  const here = memory.keys.filter(key => key.workspace_id === own)
  const listed = isIncluded ? here : here.filter(({ disabled }) => !disabled)
  const shown = Number(flags.offset ?? 0) + data.length
  return [
    ...(listed.length > shown && data.length > 0
      ? [`Shown: ${data.length} of ${listed.length}. --offset ${shown} shows the next, --all all`]
      : []),
    ...(here.length > listed.length
      ? [`Hidden: ${here.length - listed.length} disabled. --disabled shows them`]
      : []),
    ...(await describeOtherKeys(data, { gateway, flags })),
  ]
}
