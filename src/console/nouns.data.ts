/** What the console lists, makes, changes and deletes, by its place: `#/keys`. */
export interface NounPage {
  title: string
  /** One of them: "key". */
  one: string
  /** Where the API has them. */
  path: string
  /** The field that names one in paths; none where nothing has a page of its own. */
  id?: string
  /** The fields that the list shows. */
  columns: string[]
  /** Amounts in USD among them. */
  money?: string[]
  /** Whether the list may be of one workspace. */
  ofWorkspace?: boolean
  /** What lists are asked with, where the API has no `limit` for them. */
  query?: Record<string, string>
  /** How many the API lists at once, where that is fixed. */
  pageSize?: number
  /** Whether its pages begin after one of them, or end before it, and not with a number. */
  isPagedById?: true
  /** The fields by which the list can be narrowed. */
  filters?: string[]
  /** What is said above the list. */
  about: string
  /** Whether members have it too, about what is their own. */
  ofMembers?: true
  /** The fields that members cannot set. */
  notOfMembers?: string[]
  /** What belongs to one, by its path, with the fields that are shown. */
  parts?: Record<string, { title: string; columns: string[]; money?: string[] }>
  /** What else can be done with one, as its path says: what is said of it before. */
  actions?: Record<string, string>
  /** What goes with one that is deleted. */
  loss?: string
}

export const NOUNS: Record<string, NounPage> = {
  keys: {
    ...{ title: 'Keys', one: 'key', path: '/keys', id: 'hash', ofWorkspace: true },
    ...{ query: { include_disabled: 'true' }, pageSize: 100 },
    columns: [
      'name',
      'label',
      'disabled',
      'limit',
      'limit_reset',
      'usage',
      'usage_monthly',
      'expires_at',
    ],
    money: ['limit', 'usage', 'usage_monthly'],
    about: 'Who calls models has a key. Its secret is shown once, when it is made.',
    loss: 'Whoever uses this key is refused from the next request on. Its records stay.',
    ofMembers: true,
    notOfMembers: ['creator_user_id', 'external'],
    actions: { rotate: 'A new secret takes the place of the one so far, and is shown once.' },
  },
  guardrails: {
    ...{ title: 'Guardrails', one: 'guardrail', path: '/guardrails', id: 'id', ofWorkspace: true },
    columns: ['name', 'description', 'limit_usd', 'reset_interval', 'created_at'],
    money: ['limit_usd'],
    about: 'What keys, members and workspaces may use and spend.',
    loss: 'What it forbids is allowed to those who have it, at once.',
    parts: {
      'assignments/keys': { title: 'Keys that have it', columns: ['key_name', 'key_hash'] },
      'assignments/members': { title: 'Members that have it', columns: ['user_id'] },
    },
    actions: {
      'assignments/keys': 'By the hashes of the keys.',
      'assignments/keys/remove': 'By the hashes of the keys.',
      'assignments/members': 'By the ids of the members.',
      'assignments/members/remove': 'By the ids of the members.',
    },
  },
  presets: {
    ...{ title: 'Presets', one: 'preset', path: '/presets', id: 'slug' },
    columns: ['slug', 'name', 'description', 'updated_at'],
    about: 'A model, its parameters and its instructions under one name: @preset/name.',
  },
  workspaces: {
    ...{ title: 'Workspaces', one: 'workspace', path: '/workspaces', id: 'id' },
    columns: ['name', 'slug', 'description', 'created_at'],
    about: 'A workspace has keys, guardrails, budgets and members of its own.',
    loss: 'Its keys are deleted with it. Records stay.',
    parts: {
      members: { title: 'Its members', columns: ['user_id', 'role', 'created_at'] },
      budgets: {
        title: 'Its budgets',
        columns: ['reset_interval', 'limit_usd', 'soft', 'updated_at'],
        money: ['limit_usd'],
      },
    },
    actions: {
      'budgets/{interval}': 'Daily, weekly, monthly or for its lifetime.',
      'members/add': 'By the ids of the members.',
      'members/remove': 'By the ids of the members.',
    },
  },
  members: {
    ...{ title: 'Members', one: 'member', path: '/organization/members' },
    columns: ['email', 'first_name', 'last_name', 'role', 'id'],
    about: 'Identity providers add them over SCIM, and operators with gateway members add.',
  },
  byok: {
    ...{ title: 'Provider keys', one: 'provider key', path: '/byok', id: 'id', ofWorkspace: true },
    columns: ['provider', 'name', 'label', 'disabled', 'is_fallback', 'created_at'],
    about: 'Keys of your own accounts at providers. They are kept sealed, and never shown again.',
    loss: 'Calls that need it go to other endpoints, or fail.',
  },
  destinations: {
    title: 'Destinations',
    one: 'destination',
    ...{ path: '/observability/destinations', id: 'id', ofWorkspace: true },
    columns: ['name', 'type', 'enabled', 'sampling_rate', 'created_at'],
    about: 'Where finished calls are told of: tracing, analytics, webhooks, buckets.',
    loss: 'It is told of nothing more, and what still waits for it is lost.',
  },
  alerts: {
    ...{ title: 'Alerts', one: 'alert', path: '/alerts', id: 'id', ofWorkspace: true },
    columns: ['name', 'cause', 'thresholds', 'window', 'disabled', 'created_at'],
    about: 'Who is told when a limit is near, calls fail or an account is empty.',
    loss: 'Nobody is told any more.',
    actions: { test: 'The receiver gets a sample.' },
  },
  files: {
    ...{ title: 'Files', one: 'file', path: '/files', id: 'id', ofWorkspace: true },
    ...{ query: { limit: '50' }, isPagedById: true },
    columns: ['id', 'filename', 'size_bytes', 'mime_type', 'created_at'],
    about: 'Files that calls name by their ids.',
    loss: 'Calls that name it fail.',
  },
  audit: {
    ...{ title: 'Audit', one: 'entry', path: '/audit', ofWorkspace: true },
    columns: ['created_at', 'actor', 'action', 'resource_id', 'user_id', 'changed'],
    filters: ['action', 'resource_id', 'user_id', 'key_hash'],
    about: 'Every change that was made here, by whom, and what it was before.',
  },
}
