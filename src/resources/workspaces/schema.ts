import { type Static, Type } from '@sinclair/typebox'
import { PageQuery } from '../../base/pages.ts'
import { Name, oneOf, optional, TrueOrFalse } from '../../base/schema-builders.ts'

const WorkspaceName = Type.String({ minLength: 1, maxLength: 100 })
const Slug = Type.String({
  title: 'small letters and digits, with hyphens between',
  minLength: 1,
  maxLength: 50,
  pattern: '^[a-z0-9]+(?:-[a-z0-9]+)*$',
})
const SERVER_TOOLS = [
  ...[
    'advisor',
    'apply_patch',
    'bash',
    'datetime',
    'fusion',
    'image_generation',
    'experimental__search_models',
  ],
  ...['shell', 'subagent', 'tool_search', 'web_fetch', 'web_search'],
]
// A tool's name contains the name of the service and is accepted with either name.
const ServerTool = Type.Union(
  ['openrouter', 'gateway'].flatMap(service =>
    SERVER_TOOLS.map(tool => Type.Literal(`${service}:${tool}`)),
  ),
)

/** The settings of a workspace, without its name and slug. */
const CHANGEABLE = {
  default_image_model: optional(Name),
  default_provider_sort: optional(oneOf('price', 'throughput', 'latency', 'exacto')),
  default_text_model: optional(Name),
  description: optional(Type.String({ maxLength: 500 })),
  disabled_server_tools: optional(Type.Array(ServerTool, { maxItems: 100 })),
  io_logging_api_key_ids: optional(Type.Array(Type.Integer(), { maxItems: 1_000 })),
  io_logging_sampling_rate: Type.Optional(Type.Number({ minimum: 0.0001, maximum: 1 })),
  is_data_discount_logging_enabled: Type.Optional(Type.Boolean()),
  is_observability_broadcast_enabled: Type.Optional(Type.Boolean()),
  is_observability_io_logging_enabled: Type.Optional(Type.Boolean()),
}

/** The body of `POST /workspaces`. */
export const NewWorkspace = Type.Object({ ...CHANGEABLE, name: WorkspaceName, slug: Slug })
export type NewWorkspace = Static<typeof NewWorkspace>

/** The body of `PATCH /workspaces/{id}`. */
export const WorkspaceChange = Type.Object({
  ...CHANGEABLE,
  name: Type.Optional(WorkspaceName),
  slug: Type.Optional(Slug),
})
export type WorkspaceChange = Static<typeof WorkspaceChange>

/** The query of `GET /workspaces`. */
export const WorkspaceQuery = PageQuery
export type WorkspaceQuery = Static<typeof WorkspaceQuery>

/** The query of E13, `DELETE /workspaces/{id}`. */
export const WorkspaceDeletion = Type.Object({
  confirm_default_workspace_deletion: Type.Optional(TrueOrFalse),
})
export type WorkspaceDeletion = Static<typeof WorkspaceDeletion>
