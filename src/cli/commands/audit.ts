import { Command } from 'commander'
import { type CommonOptions, common, inputOf, paged } from '../options.ts'
import { output, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface ListOptions extends CommonOptions {
  action?: string
  resource?: string
  user?: string
  key?: string
  workspace?: string
  since?: string
  until?: string
  offset?: number
  limit?: number
}

/** `gateway audit`: what was changed, and by whom. */
export const auditCommand = () => new Command('audit').description('what was changed, and by whom').addCommand(listCommand())

const listCommand = () =>
  paged(common(new Command('list').description('list the changes, the newest first')))
    .option('--action <noun.verb>', 'one kind of change, as keys.create')
    .option('--resource <id>', 'the changes of one thing, by its id or hash')
    .option('--user <id>', 'what this user did')
    .option('--key <hash>', 'what was done with this API key')
    .option('--workspace <id>', 'the changes in one workspace, by id or slug; by id if it is gone')
    .option('--since <time>', 'from this moment on, ISO 8601 in UTC with seconds')
    .option('--until <time>', 'before this moment')
    .action(list)

async function list({ action, resource, user, key, workspace, since, until, offset, limit, ...options }: ListOptions): Promise<void> {
  const { AuditQuery, listAudit } = await import('../../core/identity/audit.ts')
  await withGateway(options, async (gateway, actor) => {
    const bySlug = [...gateway.memory.workspaces.values()].find(({ slug }) => slug === workspace)?.id
    const about = { action, resource_id: resource, user_id: user, key_hash: key, workspace_id: bySlug ?? workspace }
    const query = inputOf(AuditQuery, { ...about, since, until, offset, limit })
    output(options.json, await listAudit(gateway, actor, query), ({ data }) =>
      printTable(
        ['WHEN', 'ACTION', 'RESOURCE', 'CHANGED', 'BY', 'WITH KEY'],
        data.map(one => [one.created_at, one.action, one.resource_id, one.changed.join(' '), one.user_id, one.key_hash ?? one.actor]),
      ),
    )
  })
}
