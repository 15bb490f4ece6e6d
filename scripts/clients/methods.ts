import { OpenRouter } from '@openrouter/sdk'

/** A namespace of the client: an object with methods, and getters for the namespaces below it. */
type Namespace = Record<string, unknown>

/** One method of the official client: its name, and the prototype that has it. */
export interface ClientMethod {
  /** With its namespaces: `beta.responses.send`. */
  name: string
  owner: Namespace
  key: string
}

/** Lists every public method of the official client, with those of its namespaces. */
export function listMethods(): ClientMethod[] {
  const client = new OpenRouter({ apiKey: 'none', serverURL: 'http://127.0.0.1:9' })
  return walk(client as unknown as Namespace, [])
}

function walk(namespace: Namespace, path: string[]): ClientMethod[] {
  const owner = Object.getPrototypeOf(namespace) as Namespace
  return Object.entries(Object.getOwnPropertyDescriptors(owner)).flatMap(
    ([key, { get, value }]) => {
      if (key === 'constructor' || key.startsWith('_')) return []
      if (get) return walk(namespace[key] as Namespace, [...path, key])
      return typeof value === 'function' ? [{ name: [...path, key].join('.'), owner, key }] : []
    },
  )
}

const INTERNS =
  'Interns are agents that the public service runs on machines of its own. A gateway has none.'
const VAULT = 'The vault holds the secrets of interns, which a gateway does not run.'
const DECISIONS =
  'A decision is made by a service of the public one behind this door, for which it publishes ' +
  'no model that another could ask.'
const NO_REQUEST = 'Sends nothing: it computes on the client.'
const AGENT = 'A loop over `responses.send` on the client, with no door of its own.'

/** The methods that no gateway can answer, or that ask nothing, and why. */
export const WITHOUT_DOOR: Record<string, string> = {
  ...Object.fromEntries(
    [
      ...['listInterns', 'createIntern', 'deleteIntern', 'getIntern', 'updateIntern'],
      ...['provisionIntern', 'suspendIntern', 'chat'],
    ].map(name => [`interns.${name}`, INTERNS]),
  ),
  ...Object.fromEntries(
    [
      ...['listInternVaultSecrets', 'deleteInternVaultSecret', 'storeInternVaultSecret'],
      ...['copyVaultSecretsToIntern', 'listVaultSecrets', 'deleteVaultSecret', 'storeVaultSecret'],
    ].map(name => [`vault.${name}`, VAULT]),
  ),
  'alpha.decisions.create': DECISIONS,
  'systemOne.create': DECISIONS,
  'oAuth.createAuthorizationUrl': NO_REQUEST,
  'oAuth.createSHA256CodeChallenge': NO_REQUEST,
  callModel: AGENT,
}
