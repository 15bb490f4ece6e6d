import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import { open } from '../../base/schema-builders.ts'
import { chat, completions } from '../../translation/dialects/chat.ts'
import type { Dialect } from '../../translation/dialects/dialect.ts'
import { embeddings } from '../../translation/dialects/embeddings.ts'
import { images } from '../../translation/dialects/images.ts'
import { speech } from '../../translation/dialects/speech.ts'
import { transcriptions } from '../../translation/dialects/transcriptions.ts'
import type { FindRequestPeer } from '../calls.ts'
import type { Routes } from '../routes.ts'
import { createDoorRoute } from './inference.ts'

/** A version of Azure’s API. All are answered alike, but what is none was meant otherwise. */
const VersionQuery = Type.Object(
  {
    'api-version': Type.String({
      pattern: '^(\\d{4}-\\d{2}-\\d{2}(-preview)?|v1|latest|preview)$',
      maxLength: 32,
    }),
  },
  open,
)

/** What may be asked of a deployment: the dialect of OpenAI's, and the end of its operation's id. */
const ACTIONS: [path: string, dialect: Dialect, id: string][] = [
  ['/chat/completions', chat as Dialect, 'ChatCompletion'],
  ['/completions', completions as Dialect, 'Completion'],
  ['/embeddings', embeddings as Dialect, 'Embeddings'],
  ['/images/generations', images as Dialect, 'Images'],
  ['/images/edits', images as Dialect, 'ImageEdits'],
  ['/audio/speech', speech as Dialect, 'Speech'],
  ['/audio/transcriptions', transcriptions as Dialect, 'Transcription'],
]

/**
 * Creates the routes of Azure's clients: `/openai/deployments/{deployment}/…`. A deployment is a
 * model, and precedes the one that the body may name. `/openai/v1` is another base of the API.
 */
export const createAzureRoutes = (gateway: Gateway, findPeer: FindRequestPeer): Routes[] =>
  ACTIONS.map(([path, dialect, id]) =>
    createDoorRoute(gateway, findPeer, {
      dialect: toDeployment(dialect, path, id),
      path: `/openai/deployments/:deployment${path}`,
      params: { deployment: 'The model' },
      query: VersionQuery,
      keyHeader: 'api-key',
      read: ({ deployment }) => ({ model: deployment }),
    }),
  )

const toDeployment = (dialect: Dialect, path: string, id: string): Dialect => ({
  ...dialect,
  operation: {
    id: `createDeployment${id}`,
    tag: 'Azure',
    summary: `As ${path}, of a deployment`,
  },
  body: omitModel(dialect.body),
  ...(dialect.form ? { form: { ...dialect.form, body: omitModel(dialect.form.body) } } : {}),
})

// The path has it.
function omitModel(schema: TSchema): TSchema {
  const { required, ...rest } = schema as TObject
  return { ...rest, required: required?.filter(name => name !== 'model') } as TSchema
}
