import { readFileSync } from 'node:fs'
import data from './answers.data.json' with { type: 'file' }

/** A JSON Schema. */
export type JsonSchema = Record<string, unknown>

/** The schemas of successful answers. */
export interface Answers {
  /** By operation and media type. */
  operations: Record<string, Record<string, JsonSchema>>
  /** What they refer to, by name. */
  schemas: Record<string, JsonSchema>
}

/**
 * Reads the schemas of successful answers: those of the public API, which `bun run answers` takes
 * from its description, and those of operations that only this gateway has.
 */
export function readAnswers(): Answers {
  const { operations, schemas } = JSON.parse(readFileSync(data, 'utf8')) as Answers
  const all = { ...operations, ...OWN }
  const alike = Object.entries(ALIKE).map(([id, like]) => [id, all[like] ?? {}])
  return {
    operations: { ...all, ...Object.fromEntries(alike) },
    schemas: { ...schemas, ...OWN_SCHEMAS },
  }
}

const text = { type: 'string' }
const optionalText = { type: ['string', 'null'] }
const integer = { type: 'integer' }
const optionalInteger = { type: ['integer', 'null'] }

const object = (properties: JsonSchema, optional: string[] = []): JsonSchema => ({
  type: 'object',
  required: Object.keys(properties).filter(name => !optional.includes(name)),
  properties,
})
const array = (items: JsonSchema): JsonSchema => ({ type: 'array', items })
const json = (schema: JsonSchema) => ({ 'application/json': schema })
const refer = (name: string): JsonSchema => ({ $ref: `#/components/schemas/${name}` })
const scim = (name: string) => ({ 'application/scim+json': refer(name) })

const STATUS = { ...text, enum: ['ok'] }
const HEALTH = object({ status: STATUS, config: { ...text, enum: ['rejected'] } }, ['config'])

/** As the call was answered, with how it stands by now. */
const STORED_RESPONSE = object({ id: text, object: text, status: text, output: array({}) })

const SYNC_JOB = object({
  id: text,
  status: { ...text, enum: ['queued', 'running', 'succeeded', 'failed'] },
  synced_groups: optionalInteger,
  deleted_groups: optionalInteger,
  error_message: optionalText,
  created_at: text,
  started_at: optionalText,
  finished_at: optionalText,
})

const AUDIT_ENTRY = object({
  id: text,
  created_at: text,
  actor: text,
  user_id: text,
  key_hash: optionalText,
  workspace_id: optionalText,
  action: { ...text, examples: ['keys.create'] },
  resource_id: text,
  before: { type: ['object', 'null'] },
  after: { type: ['object', 'null'] },
  changed: array(text),
})

const ALERT = object(
  {
    id: text,
    workspace_id: text,
    name: text,
    cause: { ...text, examples: ['limit_near'] },
    thresholds: array({ type: 'number' }),
    window: optionalText,
    key_hash: optionalText,
    provider: optionalText,
    destination_id: optionalText,
    disabled: { type: 'boolean' },
    created_at: text,
    updated_at: text,
    to: { type: ['object', 'null'] },
    warning: text,
    notices: object({
      waiting: integer,
      delivered: integer,
      failed: integer,
      last_at: optionalText,
      last_error: optionalText,
    }),
  },
  ['warning', 'notices'],
)

const JWK = object({
  kty: { ...text, enum: ['EC'] },
  crv: { ...text, enum: ['P-256'] },
  alg: { ...text, enum: ['ES256'] },
  use: { ...text, enum: ['sig'] },
  kid: text,
  x: text,
  y: text,
})

const TOKEN = object({
  access_token: text,
  expires_in: integer,
  issued_token_type: { ...text, enum: ['urn:ietf:params:oauth:token-type:access_token'] },
  scope: text,
  token_type: { ...text, enum: ['Bearer'] },
})

const COMPLETION = object({
  id: text,
  object: { ...text, enum: ['text_completion'] },
  created: integer,
  model: text,
  choices: array(object({ text, index: integer, finish_reason: optionalText })),
  usage: refer('ChatUsage'),
})

/** A public model with what OpenAI's clients look for. */
const OPENAI_MODEL = {
  allOf: [refer('Model'), object({ object: { ...text, enum: ['model'] }, owned_by: text })],
}

const PROBLEM = object({
  code: text,
  message: text,
  param: optionalText,
  line: optionalInteger,
})

const BATCH = object({
  id: text,
  object: { ...text, enum: ['batch'] },
  endpoint: text,
  errors: {
    anyOf: [
      object({ object: { ...text, enum: ['list'] }, data: array(PROBLEM) }),
      { type: 'null' },
    ],
  },
  input_file_id: text,
  completion_window: text,
  status: {
    ...text,
    enum: [
      'validating',
      'in_progress',
      'finalizing',
      'cancelling',
      'completed',
      'failed',
      'expired',
      'cancelled',
    ],
  },
  output_file_id: optionalText,
  error_file_id: optionalText,
  created_at: integer,
  in_progress_at: optionalInteger,
  expires_at: optionalInteger,
  finalizing_at: optionalInteger,
  completed_at: optionalInteger,
  failed_at: optionalInteger,
  expired_at: optionalInteger,
  cancelled_at: optionalInteger,
  cancelling_at: optionalInteger,
  request_counts: object({ total: integer, completed: integer, failed: integer }),
  metadata: { type: ['object', 'null'], additionalProperties: text },
})

const META = object({ resourceType: text, location: text }, ['location'])
const SCIM_SCHEMAS = array(text)
const REFERENCES = array(object({ value: text, display: text }, ['display']))

const OWN_SCHEMAS: Answers['schemas'] = {
  Batch: BATCH,
  ScimUser: object(
    { schemas: SCIM_SCHEMAS, id: text, userName: text, active: { type: 'boolean' }, meta: META },
    ['userName', 'active', 'meta'],
  ),
  ScimGroup: object(
    { schemas: SCIM_SCHEMAS, id: text, displayName: text, members: REFERENCES, meta: META },
    ['displayName', 'members', 'meta'],
  ),
  ScimList: object(
    {
      schemas: SCIM_SCHEMAS,
      totalResults: integer,
      startIndex: integer,
      itemsPerPage: integer,
      Resources: array({ type: 'object' }),
    },
    ['startIndex', 'itemsPerPage', 'Resources'],
  ),
  ScimDescription: object({ schemas: SCIM_SCHEMAS, meta: META }, ['meta']),
}

/** Operations of doors, and those that they answer as. */
const ALIKE: Record<string, string> = {
  invokeModel: 'createMessages',
  createDeploymentChatCompletion: 'sendChatCompletionRequest',
  createDeploymentCompletion: 'sendCompletionRequest',
  createDeploymentEmbeddings: 'createEmbeddings',
  createDeploymentImages: 'createImages',
  createDeploymentImageEdits: 'createImages',
  createDeploymentSpeech: 'createAudioSpeech',
  createDeploymentTranscription: 'createAudioTranscriptions',
}

const MESSAGE_BATCH = object({
  id: text,
  type: { ...text, enum: ['message_batch'] },
  processing_status: { ...text, enum: ['in_progress', 'canceling', 'ended'] },
  request_counts: object({
    processing: integer,
    succeeded: integer,
    errored: integer,
    canceled: integer,
    expired: integer,
  }),
  ended_at: optionalText,
  created_at: text,
  expires_at: text,
  archived_at: optionalText,
  cancel_initiated_at: optionalText,
  results_url: optionalText,
})
/** An answer of JSON-RPC: what was asked for, or why there is none. */
const MESSAGE = object({ jsonrpc: text, id: {}, result: {}, error: {} }, ['result', 'error'])
const CONVERSED = object({
  output: object({ message: { type: 'object' } }),
  stopReason: text,
  usage: { type: 'object' },
  metrics: { type: 'object' },
})
const CONTENT_RESPONSE = object({ candidates: array({ type: 'object' }), modelVersion: text }, [
  'modelVersion',
])
const EMBEDDING = object({ values: array({ type: 'number' }) })
const GEMINI_MODEL = object({
  name: text,
  version: text,
  displayName: text,
  supportedGenerationMethods: array(text),
})

const OWN: Answers['operations'] = {
  askMcp: json(MESSAGE),
  listenToMcp: { 'text/event-stream': text },
  askMcpServer: json(MESSAGE),
  listenToMcpServer: { 'text/event-stream': text },
  converse: json(CONVERSED),
  converseStream: { 'application/vnd.amazon.eventstream': { type: 'string', format: 'binary' } },
  invokeModelWithResponseStream: {
    'application/vnd.amazon.eventstream': { type: 'string', format: 'binary' },
  },
  generateContent: json(CONTENT_RESPONSE),
  streamGenerateContent: { ...json(array(CONTENT_RESPONSE)), 'text/event-stream': text },
  countTokens: json(object({ totalTokens: integer })),
  embedContent: json(object({ embedding: EMBEDDING })),
  batchEmbedContents: json(object({ embeddings: array(EMBEDDING) })),
  listGeminiModels: json(
    object({ models: array(GEMINI_MODEL), nextPageToken: text }, ['nextPageToken']),
  ),
  getGeminiModel: json(GEMINI_MODEL),
  getResponse: { ...json(STORED_RESPONSE), 'text/event-stream': text },
  cancelResponse: json(STORED_RESPONSE),
  deleteResponse: json(object({ id: text, object: text, deleted: { type: 'boolean' } })),
  listResponseInputItems: json(
    object({
      object: { ...text, enum: ['list'] },
      data: array({}),
      first_id: optionalText,
      last_id: optionalText,
      has_more: { type: 'boolean' },
    }),
  ),
  sendCompletionRequest: { ...json(COMPLETION), 'text/event-stream': text },
  getModels: { ...json(refer('ModelsListResponse')), 'application/rss+xml': text },
  createModeration: json(object({ id: text, model: text, results: array({ type: 'object' }) })),
  createMessageBatch: json(MESSAGE_BATCH),
  getMessageBatch: json(MESSAGE_BATCH),
  cancelMessageBatch: json(MESSAGE_BATCH),
  deleteMessageBatch: json(object({ id: text, type: text })),
  getMessageBatchResults: { 'application/x-jsonl': text },
  listMessageBatches: json(
    object({
      data: array(MESSAGE_BATCH),
      has_more: { type: 'boolean' },
      first_id: optionalText,
      last_id: optionalText,
    }),
  ),
  createBatch: json(refer('Batch')),
  getBatch: json(refer('Batch')),
  cancelBatch: json(refer('Batch')),
  deleteBatch: json(
    object({ id: text, object: { ...text, enum: ['batch'] }, deleted: { type: 'boolean' } }),
  ),
  listBatches: json(
    object({
      object: { ...text, enum: ['list'] },
      data: array(refer('Batch')),
      first_id: optionalText,
      last_id: optionalText,
      has_more: { type: 'boolean' },
    }),
  ),
  countMessageTokens: json(object({ input_tokens: integer })),
  countResponseTokens: json(object({ object: text, input_tokens: integer })),
  compactResponse: json(
    object({
      id: text,
      object: text,
      created_at: integer,
      output: array({}),
      usage: {},
    }),
  ),
  listOauthJwks: json(object({ keys: array(JWK) })),
  createOauthToken: json(TOKEN),
  retrieveModel: json(OPENAI_MODEL),
  retrieveModelById: json(OPENAI_MODEL),
  streamActivity: { 'text/event-stream': text },
  listAlerts: json(object({ data: array(ALERT), total_count: integer })),
  createAlert: json(object({ data: ALERT })),
  getAlert: json(object({ data: ALERT })),
  updateAlert: json(object({ data: ALERT })),
  deleteAlert: json(object({ deleted: { type: 'boolean' } })),
  testAlert: json(
    object({
      data: object({ passed: { type: 'boolean' }, status: optionalInteger, reason: optionalText }),
    }),
  ),
  rotateKey: json(
    object({ data: {}, key: { type: 'string' }, previous_valid_until: optionalText }),
  ),
  listAudit: json(object({ data: array(AUDIT_ENTRY), total_count: integer })),
  createScimSyncJob: json(object({ data: SYNC_JOB })),
  getScimSyncJob: json(object({ data: SYNC_JOB })),
  listScimUserResources: scim('ScimList'),
  searchScimUserResources: scim('ScimList'),
  createScimUserResource: scim('ScimUser'),
  getScimUserResource: scim('ScimUser'),
  replaceScimUserResource: scim('ScimUser'),
  patchScimUserResource: scim('ScimUser'),
  listScimGroupResources: scim('ScimList'),
  searchScimGroupResources: scim('ScimList'),
  createScimGroupResource: scim('ScimGroup'),
  getScimGroupResource: scim('ScimGroup'),
  replaceScimGroupResource: scim('ScimGroup'),
  patchScimGroupResource: scim('ScimGroup'),
  getScimServiceProviderConfig: scim('ScimDescription'),
  listScimResourceTypes: scim('ScimList'),
  getScimResourceType: scim('ScimDescription'),
  listScimSchemas: scim('ScimList'),
  getScimSchema: scim('ScimDescription'),
  searchScim: scim('ScimList'),
  home: { 'text/html': text },
  creditsPage: { 'text/html': text },
  favicon: { 'image/svg+xml': text },
  health: json(HEALTH),
  healthz: json(HEALTH),
  ready: json(
    object(
      {
        status: { ...text, examples: ['ready'] },
        overloaded: { ...text, examples: ['in_flight'] },
        degraded: { ...text, examples: ['store'] },
        valkey: { ...text, examples: ['does not answer'] },
      },
      ['overloaded', 'degraded', 'valkey'],
    ),
  ),
  metrics: { 'text/plain': text },
  openapiJson: json({ type: 'object' }),
  openapiYaml: { 'application/yaml': text },
  docs: { 'text/html': text },
  docsPart: { 'text/javascript': text, 'text/css': text },
}
