import {
  demand,
  fill,
  fillDisabled,
  fillWorkspace,
  OR_NULL,
  offer,
  USD_OR_NULL,
} from '../fields.ts'
import { defineNoun, defineVerbs, printDeleted, withInput } from '../noun.ts'
import { formatDollars, print, printNote } from '../output.ts'

const verb = defineVerbs(async () => ({
  ...(await import('../../core/identity/keys.ts')),
  ...(await import('../../core/identity/keys/schema.ts')),
}))

const NAME = fill('name', '--name <name>', 'what it is for')
const LIMITS = [
  fill('limit', '--limit <usd>', 'spending limit in USD, or none', USD_OR_NULL),
  fill('limit_reset', '--limit-reset <period>', 'daily, weekly, monthly, or none', OR_NULL),
  fill('include_byok_in_limit', '--byok-in-limit', 'count spending through own provider keys'),
]
const NEW = [
  ...LIMITS,
  demand(NAME),
  offer('--management', 'a management key, which cannot call models'),
  fill('expires_at', '--expires-at <time>', 'ISO 8601 in UTC with seconds'),
  fillWorkspace('its workspace, by id or slug'),
]
const CHANGE = [
  ...LIMITS,
  NAME,
  fillDisabled('disable it', 'enable it again'),
  offer('--no-byok-in-limit', 'do not count spending through own provider keys'),
]
const LIST_FIELDS = [
  fill('include_disabled', '--all', 'include disabled keys', { read: () => 'true' }),
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
        withInput(core.NewKey, (gateway, actor, input) =>
          core.createKey(gateway, actor, input, management ? 'management' : 'inference'),
        ),
    ).printAs(({ key, data }) => {
      print(key)
      printNote(`This key is shown once. Its hash is ${data.hash}`)
    }),
    verb('list', 'list the keys of a workspace', LIST_FIELDS, core =>
      withInput(core.KeyQuery, core.listKeys),
    ).printAs({
      NAME: key => key.name,
      LABEL: key => key.label,
      USED: key => formatDollars(key.usage),
      LIMIT: key => formatDollars(key.limit),
      STATE: key => (key.disabled ? 'disabled' : 'active'),
      HASH: key => key.hash,
    }),
    verb('get <hash>', 'show a key', [], core => core.getKey),
    verb('update <hash>', 'change a key', CHANGE, core =>
      withInput(core.KeyChange, core.updateKey),
    ),
    verb('delete <hash>', 'delete a key', [], core => core.deleteKey).printAs(printDeleted),
  ])
