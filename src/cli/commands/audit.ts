import { Option } from 'commander'
import { type Fields, fill, PAGE } from '../fields.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'

const verb = defineVerbs(() => import('../../core/identity/audit.ts'))

const WORKSPACE: Fields = {
  options: [
    new Option(
      '--workspace <id>',
      'the changes in one workspace, by id or slug; by id if it is deleted',
    ),
  ],
  find: ({ memory: { workspaces } }, { workspace }) => ({
    workspace_id: [...workspaces.values()].find(({ slug }) => slug === workspace)?.id ?? workspace,
  }),
}
const CHANGES = [
  ...PAGE,
  fill('action', '--action <noun.verb>', 'one kind of change, such as keys.create'),
  fill('resource_id', '--resource <id>', 'the changes of one resource, by its id or hash'),
  fill('user_id', '--user <id>', 'the changes by this user'),
  fill('key_hash', '--key <hash>', 'the changes made with this API key'),
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
