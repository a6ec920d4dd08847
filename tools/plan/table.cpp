#include <cstdarg>
#include <cstdio>

#include "base/error.h"
#include "tools/plan/report.h"

namespace kimi::plan {
namespace {

class Table {
  public:
    [[gnu::format(printf, 2, 3)]] void line(const char *format, ...) {
        char text[1024];
        std::va_list args;
        va_start(args, format);
        std::vsnprintf(text, sizeof text, format, args);
        va_end(args);
        out_ += text;
        out_ += '\n';
    }
    std::string take() { return std::move(out_); }

  private:
    std::string out_;
};

double gb(const Report &bytes) {
    return bytes.get<double>() * 1e-9;
}

void memory(Table &t, const Report &plan) {
    const Report &m = plan["memory"];
    t.line(
        "  GB per device: weights %.2f, drafter %.2f, workspace %.2f, graphs %.2f, reserved %.2f "
        "of %.2f%s",
        gb(m["weights_bytes"]), gb(m["drafter_bytes"]), gb(m["workspace_bytes"]),
        gb(m["graphs_bytes"]), gb(m["reserved_bytes"]), gb(m["total_bytes"]),
        m["fits"] ? "" : ": DOES NOT FIT");
    t.line("  KV: %s, %llu bytes per token and device, %llu tokens fit",
           plan["kv"].get<std::string>().c_str(), m["kv_bytes_per_token"].get<unsigned long long>(),
           m["capacity_tokens"].get<unsigned long long>());
    for (const Report &e : plan["experts"])
        t.line("  experts of a layer, %u rows: %.1f distinct, busiest rank %.2fx the mean",
               e["rows"].get<unsigned>(), e["distinct"].get<double>(),
               e["busiest_over_mean"].get<double>());
}

void cost(Table &t, const Report &context, const char *pass, const std::string &name) {
    const Report &c = context["practical"][pass];
    const auto ms = [&](const char *part) { return c[part].get<double>(); };
    t.line("  %8llu %-8s %8.2f %8.2f %8.2f %9.2f %8.2f %8.2f %8.2f %8.2f %10.0f",
           context["context"].get<unsigned long long>(), name.c_str(), ms("weights_ms"),
           ms("matmul_ms"), ms("kv_ms"), ms("attention_ms"), ms("collectives_ms"), ms("draft_ms"),
           ms("total_ms"), context["ideal"][pass]["total_ms"].get<double>(), ms("tokens_per_s"));
}

void attention_and_tree(Table &t, const Report &context) {
    const Report &verify = context["practical"]["verify"], &grid = context["attention"];
    t.line(
        "  at %llu: attention in %u splits of %u tiles of 64 tokens, %u blocks (%u if rows and "
        "heads were not folded)",
        context["context"].get<unsigned long long>(), grid["splits"].get<unsigned>(),
        grid["tiles_per_split"].get<unsigned>(), grid["blocks_folded"].get<unsigned>(),
        grid["blocks_unfolded"].get<unsigned>());
    for (const Report &a : verify["accepted"])
        t.line("    A=%.0f: %.0f tokens/s; a further row costs %.2f ms and must add %.2f tokens",
               a["tokens_per_step"].get<double>(), a["tokens_per_s"].get<double>(),
               verify["next_row_ms"].get<double>(), a["next_row_must_add"].get<double>());
    for (const Report &b : context["tree_budget"])
        t.line(
            "    a drafter whose whole chain gives %.0f: %u nodes, %.2f tokens in %.2f ms, %.0f "
            "tokens/s; the next node adds %.2f tokens and must add %.2f",
            b["chain_tokens_per_step"].get<double>(), b["nodes"].get<unsigned>(),
            b["tokens_per_step"].get<double>(), b["step_ms"].get<double>(),
            b["tokens_per_s"].get<double>(), b["next_node_adds"].get<double>(),
            b["next_node_must_add"].get<double>());
}

void contexts(Table &t, const Report &plan, unsigned rows) {
    t.line(
        "  ms of a pass: max(weights, matmul) + max(KV, attention) + exchange + draft; tokens/s of "
        "one token per step");
    t.line(
        "   context pass      weights   matmul       KV  attention exchange    draft    total"
        "    ideal   tokens/s");
    for (const Report &context : plan["contexts"]) {
        cost(t, context, "prefill", "chunk");
        cost(t, context, "token", "1 row");
        cost(t, context, "verify", cat(rows, " rows"));
    }
    for (const Report &context : plan["contexts"]) attention_and_tree(t, context);
}

void plan(Table &t, const char *title, const Report &plan, unsigned rows) {
    t.line("\n%s: %s", title, plan["placement"]["text"].get<std::string>().c_str());
    if (plan.contains("reasons")) {
        t.line("  because otherwise (practical, mean over the contexts):");
        for (const Report &reason : plan["reasons"])
            t.line("    %s", reason.get<std::string>().c_str());
    }
    memory(t, plan);
    contexts(t, plan, rows);
}

void search(Table &t, const Report &rows) {
    t.line("\nAll placements, ms of a verify step (practical, mean over the contexts):");
    t.line("   step ms  weights GB  tokens that fit  fits  KV    placement");
    for (const Report &r : rows)
        t.line("  %8.2f  %10.2f  %15llu  %-4s  %-4s  %s", r["step_ms"].get<double>(),
               gb(r["weights_bytes"]), r["capacity_tokens"].get<unsigned long long>(),
               r["fits"] ? "yes" : "no", r["kv"].get<std::string>().c_str(),
               r["placement"].get<std::string>().c_str());
}

}  // namespace

std::string to_table(const Report &report) {
    Table t;
    const auto rows = report["verify_rows"].get<unsigned>();
    t.line("%s; %s routing; prompts in chunks of %u; %llu tokens of KV are asked for",
           report["machine"]["name"].get<std::string>().c_str(),
           report["routing"].get<std::string>().c_str(), report["chunk_rows"].get<unsigned>(),
           report["capacity_asked"].get<unsigned long long>());
    if (report.contains("deployment")) plan(t, "Deployment", report["deployment"], rows);
    if (report.contains("recommended")) {
        plan(t, "Recommended", report["recommended"], rows);
    } else {
        t.line("\nNo placement fits this machine with the tokens that are asked for.");
    }
    if (report.contains("search")) search(t, report["search"]);
    return t.take();
}

}  // namespace kimi::plan
