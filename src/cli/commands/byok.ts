import { Option } from 'commander'
import { invalid } from '../../base/errors.ts'
import {
  demand,
  type Fields,
  fill,
  fillAllNamed,
  fillDisabled,
  fillWorkspace,
  LIST,
  offer,
  PAGE,
  refuseBeside,
} from '../fields.ts'
import { describeOthers } from '../lists.ts'
import { BYOK_KEYS, KEYS, MEMBERS } from '../names.ts'
import { defineNoun, defineVerbs, printDeleted } from '../noun.ts'
import { printFields } from '../output.ts'
import { readSecret } from '../prompt.ts'

/** The options that name where to read a key. */
type KeySource = {
  keyFile?: string
  keyEnv?: string
  keyStdin?: boolean
}

const verb = defineVerbs(
  async () => ({
    ...(await import('../../resources/byok/operations.ts')).byok.operations,
    ...(await import('../../resources/byok.ts')),
  }),
  { args: { id: 'its id, name or label, or a beginning of one' }, names: { id: BYOK_KEYS } },
)

/** Declares the sources that a key may be read from, and reads it from stdin where that applies. */
const createKeyFields = (isFromStdin: (source: KeySource) => boolean): Fields => ({
  options: [
    new Option(
      '--key-file <file>',
      'the file that holds the key, or the JSON of a service account or of AWS credentials',
    ).conflicts('keyEnv'),
    new Option('--key-env <name>', 'the environment variable that holds it'),
  ],
  read: async (source: KeySource) => ({ key: await readKey(source, isFromStdin(source)) }),
})

const SETTINGS = [
  fill('name', '--name <name>', 'its name'),
  fill('is_fallback', '--fallback', 'try it after the gateway’s own credential, not before'),
  fill('is_byok_only', '--only', 'the gateway’s own credential serves no model of this provider'),
  fill(
    'is_required',
    '--required',
    'the gateway’s own credential serves none of the models that this key is for',
  ),
  fill(
    'declared_zdr',
    '--zdr <declared>',
    'whether the provider retains nothing for you: yes, no, or none for its public policy',
    { read: parseDeclared },
  ),
  fill(
    'allowed_models',
    '--models <slugs>',
    'for these models only, comma-separated; none for all',
    LIST,
  ),
  fillAllNamed(
    'allowed_api_key_hashes',
    '--keys <keys>',
    'for these API keys only; none for all',
    KEYS,
  ),
  fillAllNamed(
    'allowed_user_ids',
    '--users <users>',
    'for these users only; none for all',
    MEMBERS,
  ),
]
const NEW = [
  createKeyFields(() => true),
  ...SETTINGS,
  demand(fill('provider', '--provider <slug>', 'the provider of the key')),
  fill('disabled', '--disabled', 'create it disabled'),
  fillWorkspace('its workspace, by id or slug'),
]
const CHANGE = [
  createKeyFields(({ keyStdin }) => keyStdin === true),
  ...SETTINGS,
  refuseBeside(['keyFile', 'keyEnv'], offer('--key-stdin', 'read a new key from stdin')),
  offer('--no-fallback', 'try it before the gateway’s own credential again'),
  offer('--no-only', 'the gateway’s own credential may serve the provider again'),
  offer('--no-required', 'the gateway’s own credential may serve the key’s models again'),
  fillDisabled('stop using it', 'use it again'),
]
const LIST_FIELDS = [
  ...PAGE,
  fill('provider', '--provider <slug>', 'the keys of one provider'),
  fillWorkspace('another workspace, by id or slug'),
]

/** `gateway byok`: callers' own provider keys, by the same functions and rules as over HTTP. */
export const createByokCommand = () =>
  defineNoun('byok', 'a workspace’s own provider keys, used before the gateway’s', [
    verb(
      'create',
      'add a provider key. It is read from stdin, a file or a variable, not from an argument, ' +
        'which would stay in the shell’s history',
      NEW,
      core => core.create,
    ),
    verb('list', 'list the provider keys of a workspace', LIST_FIELDS, core => core.list).printAs(
      {
        PROVIDER: key => key.provider,
        NAME: key => key.name,
        LABEL: key => key.label,
        TURN: key => (key.is_fallback ? 'fallback' : 'first'),
        STATE: (key, { core, gateway }) => core.getByokKeyState(gateway, key.id),
        ID: key => key.id,
      },
      describeOthers(({ memory: { byok } }) => Array.from(byok.values(), ({ key }) => key)),
    ),
    verb('get <id>', 'show a provider key, never its secret', [], core => core.get).printAs(
      ({ data }, { core, gateway, args: [id] }) =>
        printFields({ ...data, state: core.getByokKeyState(gateway, id) }),
    ),
    verb(
      'update <id>',
      'change a provider key; a new key replaces it',
      CHANGE,
      core => core.update,
    ),
    verb('delete <id>', 'delete a provider key', [], core => core.delete).printAs(printDeleted),
  ])

function parseDeclared(text: string): boolean | null {
  if (text === 'none') return null
  if (text !== 'yes' && text !== 'no') throw invalid('--zdr: expected yes, no or none')
  return text === 'yes'
}

/**
 * Reads the key from the source that the options name, or returns undefined where they name none.
 * Space around it is ignored.
 */
async function readKey({ keyFile, keyEnv }: KeySource, isFromStdin: boolean) {
  if (keyFile !== undefined) return (await readKeyFile(keyFile)).trim()
  if (keyEnv !== undefined) return readVariable(keyEnv)
  return isFromStdin ? readSecret('Provider key') : undefined
}

const readKeyFile = (file: string): Promise<string> =>
  Bun.file(file)
    .text()
    .catch(() => {
      throw invalid(`${file}: the key file cannot be read`)
    })

function readVariable(name: string): string {
  const value = process.env[name]
  if (value === undefined)
    throw invalid('--key-env: expected the name of an environment variable that is set')
  return value.trim()
}
