import { Command } from 'commander'
import { type CommonOptions, common, inputOf, orNull, paged } from '../options.ts'
import { output, print, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface PersonOptions extends CommonOptions {
  email?: string
  firstName?: string
  lastName?: string
  role?: string
}

interface UpdateOptions extends PersonOptions {
  activate?: boolean
}

interface ListOptions extends CommonOptions {
  workspace?: string
  offset?: number
  limit?: number
}

interface PlaceOptions extends CommonOptions {
  workspace: string
}

/** `gateway members`: the organization's people and who of them is in which workspace, by the same functions and rules as over HTTP. */
export const membersCommand = () =>
  new Command('members')
    .description('the organization’s people, and the workspaces’')
    .addCommand(listCommand())
    .addCommand(createCommand())
    .addCommand(updateCommand())
    .addCommand(deactivateCommand())
    .addCommand(addCommand())
    .addCommand(removeCommand())

const listCommand = () =>
  paged(common(new Command('list').description('list the organization’s members, or a workspace’s')))
    .option('--workspace <id>', 'of this workspace, by id or slug')
    .action(list)

const createCommand = () =>
  person(common(new Command('create').description('add a member to the organization')))
    .requiredOption('--email <address>', 'the e-mail address')
    .action(create)

const updateCommand = () =>
  person(common(new Command('update').description('change a member').argument('<id>', 'the user’s id')))
    .option('--email <address>', 'the e-mail address')
    .option('--activate', 'take back who left; the keys stay disabled')
    .action(update)

const deactivateCommand = () =>
  common(
    new Command('deactivate')
      .description('take a member out of the organization and disable every key that he made')
      .argument('<id>', 'the user’s id'),
  ).action(deactivate)

const addCommand = () =>
  common(new Command('add').description('put members into a workspace').argument('<ids...>', 'the users’ ids'))
    .requiredOption('--workspace <id>', 'the workspace, by id or slug')
    .action(add)

const removeCommand = () =>
  common(new Command('remove').description('take members out of a workspace').argument('<ids...>', 'the users’ ids'))
    .requiredOption('--workspace <id>', 'the workspace, by id or slug')
    .action(remove)

const person = (command: Command): Command =>
  command
    .option('--first-name <name>', 'the first name; none for none')
    .option('--last-name <name>', 'the last name; none for none')
    .option('--role <role>', 'admin or member')

async function list(options: ListOptions): Promise<void> {
  const { listMembers, listWorkspaceMembers } = await import('../../core/identity/workspace-members.ts')
  const { MemberQuery } = await import('../../core/identity/members/schema.ts')
  const query = inputOf(MemberQuery, { offset: options.offset, limit: options.limit })
  const { workspace } = options
  await withGateway(options, async (gateway, actor) => {
    if (workspace !== undefined)
      return output(options.json, await listWorkspaceMembers(gateway, actor, workspace, query), ({ data }) =>
        printTable(
          ['USER', 'ROLE', 'SINCE'],
          data.map(one => [one.user_id, one.role, one.created_at]),
        ),
      )
    output(options.json, await listMembers(gateway, actor, query), ({ data }) =>
      printTable(
        ['E-MAIL', 'FIRST NAME', 'LAST NAME', 'ROLE', 'ID'],
        data.map(one => [one.email, one.first_name, one.last_name, one.role, one.id]),
      ),
    )
  })
}

async function create(options: PersonOptions): Promise<void> {
  const { addMember } = await import('../../core/identity/members.ts')
  const { NewMember } = await import('../../core/identity/members/schema.ts')
  const { showMember } = await import('../../core/identity/members/view.ts')
  const input = inputOf(NewMember, fieldsOf(options))
  await withGateway(options, async (gateway, actor) => {
    const data = showMember(await addMember(gateway, actor, input))
    output(options.json, { data }, () => printFields(data))
  })
}

async function update(id: string, options: UpdateOptions): Promise<void> {
  const { MemberChange } = await import('../../core/identity/members/schema.ts')
  const { updateMember } = await import('../../core/identity/members.ts')
  const { showMember } = await import('../../core/identity/members/view.ts')
  const change = inputOf(MemberChange, { ...fieldsOf(options), active: options.activate })
  await withGateway(options, async (gateway, actor) => {
    const data = showMember(await updateMember(gateway, actor, id, change))
    output(options.json, { data }, () => printFields(data))
  })
}

async function deactivate(id: string, options: CommonOptions): Promise<void> {
  const { deactivateMember } = await import('../../core/identity/members.ts')
  await withGateway(options, async (gateway, actor) => {
    await deactivateMember(gateway, actor, id)
    output(options.json, { deactivated: true }, () => print(`Deactivated ${id}`))
  })
}

async function add(user_ids: string[], options: PlaceOptions): Promise<void> {
  const { addWorkspaceMembers } = await import('../../core/identity/workspace-members.ts')
  const { MemberIds } = await import('../../core/identity/members/schema.ts')
  const input = inputOf(MemberIds, { user_ids })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await addWorkspaceMembers(gateway, actor, options.workspace, input), ({ added_count }) =>
      print(`Added ${added_count} to ${options.workspace}`),
    ),
  )
}

async function remove(user_ids: string[], options: PlaceOptions): Promise<void> {
  const { MemberIds } = await import('../../core/identity/members/schema.ts')
  const { removeWorkspaceMembers } = await import('../../core/identity/workspace-members.ts')
  const input = inputOf(MemberIds, { user_ids })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await removeWorkspaceMembers(gateway, actor, options.workspace, input), ({ removed_count }) =>
      print(`Removed ${removed_count} from ${options.workspace}`),
    ),
  )
}

const fieldsOf = ({ email, firstName, lastName, role }: PersonOptions) => ({
  email,
  first_name: orNull(firstName),
  last_name: orNull(lastName),
  role: role === 'admin' || role === 'member' ? `org:${role}` : role,
})
