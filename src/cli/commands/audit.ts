import { Option } from 'commander'
import { type Fields, fill, fillNamed, findIds, PAGE } from '../fields.ts'
import { KEYS, MEMBERS, RESOURCES, WORKSPACES } from '../names.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'

const verb = defineVerbs(() => import('../../core/identity/audit.ts'))

const WORKSPACE: Fields = {
  options: [
    new Option(
      '--workspace <id>',
      'the changes in one workspace, by id or slug; by id if it is deleted',
    ),
  ],
  find: async (gateway, { workspace }) =>
    workspace === undefined
      ? {}
      : { workspace_id: (await findIds(WORKSPACES, gateway, [String(workspace)]))[0] },
}
const CHANGES = [
  ...PAGE,
  fill('action', '--action <noun.verb>', 'one kind of change, such as keys.create'),
  fillNamed(
    'resource_id',
    '--resource <id>',
    'the changes of one resource, by id or name',
    RESOURCES,
  ),
  fillNamed('user_id', '--user <user>', 'the changes by this user', MEMBERS),
  fillNamed('key_hash', '--key <key>', 'the changes made with this API key', KEYS),
  WORKSPACE,
  fill('since', '--since <time>', 'from this time on, ISO 8601 in UTC with seconds'),
  fill('until', '--until <time>', 'before this time'),
]

/** `gateway audit`: changes, and who made them. */
export const createAuditCommand = () =>
  defineNoun('audit', 'changes, and who made them', [
    verb('list', 'list the changes, newest first', CHANGES, core =>
      withInput(core.AuditQuery, core.listAudit),
    ).printAs({
      WHEN: change => change.created_at,
      ACTION: change => change.action,
      RESOURCE: change => change.resource_id,
      CHANGED: change => change.changed.join(' '),
      BY: change => change.user_id,
      'WITH KEY': change => change.key_hash ?? change.actor,
    }),
  ])
