import { Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import { buildHeadersSchema, Credential, HeaderName } from '../config.ts'
import type { Attributes } from '../otlp/attributes.ts'
import { flatten } from '../otlp/attributes.ts'
import { createOtlpKind } from '../otlp/kind.ts'
import type { Trace, TraceSpan } from '../trace.ts'

const CONFIG = Type.Object(
  {
    apiKey: Credential,
    headers: buildHeadersSchema('authorization', 'comet-workspace', 'projectname'),
    projectName: HeaderName,
    workspace: HeaderName,
  },
  closed,
)

/**
 * Comet Opik: the OTLP endpoint of its cloud, with the key as it is, the workspace and the project.
 * Sessions become its threads; contents it reads from `gen_ai.*`.
 */
export const opik = createOtlpKind({
  type: 'opik',
  config: CONFIG,
  secrets: ['apiKey'],
  address: [],
  findUrl: () => 'https://www.comet.com/opik/api/v1/private/otel/v1/traces',
  buildHeaders: ({ apiKey, workspace, projectName }) => ({
    authorization: apiKey,
    'comet-workspace': workspace,
    projectname: projectName,
  }),
  buildOptions: () => ({ buildAttributes }),
})

const buildAttributes = ({ facts, metadata }: Trace, { role }: TraceSpan): Attributes =>
  role === 'root'
    ? {
        ...(facts.sessionId === null ? {} : { thread_id: facts.sessionId }),
        ...flatten('opik.metadata', metadata),
      }
    : {}
